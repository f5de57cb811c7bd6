"""Adaptively sparse attention, Correia, Niculae & Martins 2019 (arXiv 1909.00015), section 4:
alpha_n-entmax(Q K^T / sqrt(H)) V.

Each head learns its alpha_n = 1 + sigmoid(a_n) between the softmax (1) and the sparsemax (2). a_n starts at 0, which is
1.5-entmax. alpha_n is at least 1 + 2^-10, because the kernel divides by alpha_n - 1; a_n below -6.9 has no gradient.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.kernels.variants import entmax
from attention_research.layers.attention.multi_head import MultiHeadAttention

#: The smallest alpha - 1. In float32, the weights then sum to 1 within 1e-4.
LEAST = 2.0**-10


class EntmaxAttention(MultiHeadAttention):
    """Dot-product attention with alpha-entmax in place of the softmax, and one a [N] per head."""

    def __init__(self, *, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.alpha_scale = nnx.Param(jnp.zeros((self.num_heads,), jnp.float32))

    def weigh(self, scores: Array, visible: Array | None) -> Array:
        """The alpha-entmax of the scores."""
        above_1 = jnp.maximum(jax.nn.sigmoid(self.alpha_scale[...]), LEAST)
        return entmax(scores, 1 + above_1[:, None, None], visible)
