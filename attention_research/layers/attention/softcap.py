"""Capped logits, Gemma Team 2024 (arXiv 2408.00118), section 2: softmax(c tanh(Q K^T / (c sqrt(H)))) V."""

from __future__ import annotations

from typing import Any

from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.signatures import PositiveFloat


class SoftcapAttention(MultiHeadAttention):
    """Scaled dot-product attention with logits between -`cap` and `cap` (50 in Gemma 2)."""

    def __init__(self, *, cap: PositiveFloat, **inherited: Any):
        super().__init__(**inherited)
        self.cap = cap

    def options(self, where: Where) -> dict[str, Any]:
        """The cap."""
        return {**super().options(where), "soft_cap": self.cap}
