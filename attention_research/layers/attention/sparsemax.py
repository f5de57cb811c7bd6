"""Sparsemax attention, Martins & Astudillo 2016 (arXiv 1602.02068): sparsemax(Q K^T / sqrt(H)) V.

Some weights are exactly 0 (`kernels.sparsemax`). It has no parameters.
"""

from __future__ import annotations

from jaxtyping import Array

from attention_research.kernels.variants import sparsemax
from attention_research.layers.attention.multi_head import MultiHeadAttention


class SparsemaxAttention(MultiHeadAttention):
    """Dot-product attention with the projection of the scores onto the simplex in place of the softmax."""

    def weigh(self, scores: Array, visible: Array | None) -> Array:
        """The sparsemax of the scores."""
        return sparsemax(scores, visible)
