"""Attention with linear biases, Press, Smith & Lewis 2022 (arXiv 2108.12409), section 3:
softmax(Q K^T / sqrt(H) - m_n |i - j|) V.

It has no parameters: head n has the slope m_n of `kernels.alibi_slopes`. Under a causal mask, |i - j| equals the
paper's i - j. In an encoder the bias is symmetric in both directions, which the paper does not try.
"""

from __future__ import annotations

from jaxtyping import Array, Float

from attention_research.kernels.positions import alibi_distance_bias
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where


class AlibiAttention(MultiHeadAttention):
    """Scaled dot-product attention with a bias that is linear in the distance, with one slope per head."""

    def distance_bias(self, query_length: int, key_length: int, where: Where) -> Float[Array, "N L"]:
        """-m |i - j|."""
        lengths = query_length, key_length
        return alibi_distance_bias(self.num_heads, *lengths, query_offset=where.offset, bidirectional=True)
