"""Sigmoid attention, Ramapuram et al. 2024 (arXiv 2409.04431): sigmoid(Q K^T / sqrt(H) + b) V.

The weights of a row are independent of each other and do not sum to 1. The paper has b = -log S, where S is the length
of the sequence. Here it is the longest length, so that a token has the same weights in a batch, in a longer batch and
in a cache.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.kernels.variants.sigmoid import sigmoid_weights
from attention_research.layers.attention.multi_head import MultiHeadAttention
from attention_research.signatures import Positive


class SigmoidAttention(MultiHeadAttention):
    """Attention with the sigmoid in place of the softmax, for sequences up to `max_length`.

    With `learned_bias`, b is a parameter [N] with this initial value; otherwise it is constant.
    """

    def __init__(self, *, max_length: Positive, learned_bias: bool = False, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.start_bias = -math.log(max_length)
        bias = jnp.full((self.num_heads,), self.start_bias, jnp.float32)
        self.logit_bias = nnx.Param(bias) if learned_bias else None

    def weigh(self, scores: Array, visible: Array | None) -> Array:
        """The sigmoid of the biased scores."""
        bias = self.start_bias if self.logit_bias is None else self.logit_bias[...].astype(scores.dtype)[:, None, None]
        return sigmoid_weights(scores, bias, visible)
