"""Attention with a temperature by position, Meta AI 2025 (Llama 4):
softmax((1 + a log(1 + floor(n_i / L))) Q K^T / sqrt(H)) V.

n_i is the number of keys that query i may attend to (`kernels.position_scaled_attention`). In Llama 4 every fourth
layer is of this kind, without rotary positions, and the others are rotary (`interleaved`). It has no parameters.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Array

from attention_research.kernels.variants import position_scaled_query
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.signatures import Positive, PositiveFloat


class PositionScaledAttention(MultiHeadAttention):
    """Scaled dot-product attention whose scores grow with the number of visible keys, from `interval` on.

    `interval` is L, the number of keys after which the factor grows. `strength` is a, the slope of the factor.
    """

    def __init__(self, *, interval: Positive = 8192, strength: PositiveFloat = 0.1, **inherited: Any):
        super().__init__(**inherited)
        self.interval, self.strength = interval, strength

    def prepare(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array, Array]:
        """Multiplies each query by its factor."""
        query, key, value = super().prepare(query, key, value, where)
        query = position_scaled_query(
            query, key.shape[1], where.mask, interval=self.interval, strength=self.strength,
            is_causal=where.is_causal, query_offset=where.offset,
        )  # fmt: skip
        return query, key, value
