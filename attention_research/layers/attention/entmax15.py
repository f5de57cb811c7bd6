"""1.5-entmax attention, Peters, Niculae & Martins 2019 (arXiv 1905.05702): entmax_1.5(Q K^T / sqrt(H)) V.

The weights are between those of the softmax and of the sparsemax, some exactly 0 (`kernels.entmax15`). It has no
parameters.
"""

from __future__ import annotations

from jaxtyping import Array

from attention_research.kernels.variants import entmax15
from attention_research.layers.attention.multi_head import MultiHeadAttention


class Entmax15Attention(MultiHeadAttention):
    """Dot-product attention with 1.5-entmax in place of the softmax."""

    def weigh(self, scores: Array, visible: Array | None) -> Array:
        """The 1.5-entmax of the scores."""
        return entmax15(scores, visible)
