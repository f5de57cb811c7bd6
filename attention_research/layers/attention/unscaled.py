"""Dot-product attention without a scale, softmax(Q K^T) V. Vaswani et al. 2017, section 3.2.1, argue for the scale."""

from __future__ import annotations

from attention_research.layers.attention.multi_head import MultiHeadAttention


class UnscaledAttention(MultiHeadAttention):
    """Standard attention with scale 1 instead of 1/sqrt(H)."""

    scale = 1.0
