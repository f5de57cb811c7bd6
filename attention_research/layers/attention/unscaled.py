"""Dot-product attention without its scale, softmax(Q K^T) V: what Vaswani et al. 2017, section 3.2.1, argue against."""

from __future__ import annotations

from attention_research.layers.attention.multi_head import MultiHeadAttention


class UnscaledAttention(MultiHeadAttention):
    """Standard attention with scale 1 in place of 1/sqrt(H)."""

    scale = 1.0
