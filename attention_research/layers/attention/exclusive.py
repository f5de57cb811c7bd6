"""Exclusive self-attention (XSA), Zhai 2026 (arXiv 2603.09078): z_i = y_i - (y_i . v_i) v_i / |v_i|^2 for each head.

The output y_i of a head is made orthogonal to its own value v_i (`kernels.without_own_value`). It has no parameters.
"""

from __future__ import annotations

from jax import lax
from jaxtyping import Array

from attention_research.kernels.variants import without_own_value
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where


class ExclusiveAttention(MultiHeadAttention):
    """Scaled dot-product attention without the part along a position's own value. The weights are those before."""

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """(z, the weights of y)."""
        context, weights = super().mix(query, key, value, where)
        own = value
        if query.shape[1] != value.shape[1]:
            own = lax.dynamic_slice_in_dim(value, where.offset, query.shape[1], axis=1)
        return without_own_value(context, own), weights
