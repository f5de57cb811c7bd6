"""Block-local attention, Liu et al. 2018 (arXiv 1801.10198): a position attends within its own block of the sequence.

This is the "local attention" of the Long Range Arena, Tay et al. 2021 (arXiv 2011.04006), as the text describes it. The
released code differs: see `kernels.efficient.block_local`.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Array

from attention_research.kernels import block_local_attention
from attention_research.layers.attention.sums_of_values import SumOfValues
from attention_research.signatures import Positive


class BlockLocalAttention(SumOfValues):
    """Attention within disjoint blocks of `block_size` positions. No information crosses block boundaries."""

    def __init__(self, *, block_size: Positive = 50, **inherited: Any):
        super().__init__(value_head_width=None, **inherited)
        self.block_size = block_size

    def attend(self, query: Array, key: Array, value: Array, real: Array | None) -> Array:
        """Softmax within the block."""
        return block_local_attention(query, key, value, block_size=self.block_size, mask=real)
