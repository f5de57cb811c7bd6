"""Sliding-window attention, Beltagy, Peters & Cohan 2020 (arXiv 2004.05150), section 3.1: softmax over |i - j| <= w.

In a decoder, a position attends to itself and to the w positions before it. Mistral's window counts the position
itself: its window of 4,096 is `window` 4,095 here. In an encoder, the window is w on either side. Positions are not
encoded; `sliding_window_rotary` is the same with rotary positions.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Array

from attention_research.layers.attention.multi_head import Where
from attention_research.layers.attention.rotary import expect_even, rotated
from attention_research.layers.attention.windowed import Windowed
from attention_research.signatures import NonNegative, PositiveFloat


class SlidingWindowAttention(Windowed):
    """Attention to the `window` positions before each position and, in an encoder, after it.

    The cache holds `window` + 1 positions.
    """

    cost = ("min(S, window + 1)*K*(H + Hv)", 1)

    def __init__(self, *, window: NonNegative, **inherited: Any):
        super().__init__(**inherited)
        self.window, self.ring = window, window + 1

    def options(self, where: Where) -> dict[str, Any]:
        """The window, in training. In a decoding step, the ring holds just the window."""
        if where.places is not None:
            return super().options(where)
        return {**super().options(where), "local_window_size": (self.window, 0 if where.is_causal else self.window)}


class RotarySlidingWindowAttention(SlidingWindowAttention):
    """A sliding window with rotary positions, as in Mistral, Gemma 2 and Cohere 2. `base` is that of `rotary`."""

    def __init__(self, *, base: PositiveFloat = 10000.0, **inherited: Any):
        super().__init__(**inherited)
        expect_even(self.head_width, "rotary attention")
        self.base = base

    def prepare(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array, Array]:
        """Rotates queries and keys."""
        return *rotated(query, key, where, self.base), value
