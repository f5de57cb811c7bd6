"""Talking-heads attention, Shazeer et al. 2020 (arXiv 2003.02436), section 3: softmax(sum_n scores_n P_nm) R_nm V.

Two matrices [N N] mix the scores and the weights of the heads. Both start at the identity, which is multi-head
attention.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.kernels.variants import talking_heads_weights
from attention_research.layers.attention.multi_head import MultiHeadAttention


class TalkingHeadsAttention(MultiHeadAttention):
    """Dot-product attention whose heads exchange scores and weights."""

    def __init__(self, *, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.score_scale = nnx.Param(jnp.eye(self.num_heads, dtype=jnp.float32))
        self.weight_scale = nnx.Param(jnp.eye(self.num_heads, dtype=jnp.float32))

    def weigh(self, scores: Array, visible: Array | None) -> Array:
        """The softmax of mixed scores, mixed again."""
        return talking_heads_weights(scores, self.score_scale[...], self.weight_scale[...], visible)
