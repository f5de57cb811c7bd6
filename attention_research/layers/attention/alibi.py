"""Attention with linear biases, Press, Smith & Lewis 2022 (arXiv 2108.12409), section 3:
softmax(Q K^T / sqrt(H) - m_n |i - j|) V.

No parameters: head n has the slope m_n of `kernels.alibi_slopes`. Under a causal mask |i - j| is the paper's i - j; an
encoder sees both ways alike, which the paper does not try.
"""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import alibi_distance_bias, attention_weights, dot_product_attention
from attention_research.layers.attention.multi_head import MultiHeadAttention


class AlibiAttention(MultiHeadAttention):
    """Scaled dot products with a bias by distance, of a slope for each head."""

    def mix(
        self,
        query: Float[Array, "B T N H"],
        key: Float[Array, "B S N H"],
        value: Float[Array, "B S N Hv"],
        *,
        mask: Any = None,
        is_causal: bool = False,
        offset: Any = 0,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B T N Hv"], Float[Array, "B N T S"]]:
        """softmax(Q K^T / sqrt(H) - m |i - j|) V."""
        del shared
        lengths = query.shape[1], key.shape[1]
        bias = alibi_distance_bias(self.num_heads, *lengths, query_offset=offset, bidirectional=True)
        where = {"mask": mask, "is_causal": is_causal, "distance_bias": bias}
        return dot_product_attention(query, key, value, **where), attention_weights(query, key, **where)
