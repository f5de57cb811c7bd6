"""Mixture of block attention (MoBA), Lu et al. 2025 (arXiv 2502.13189), section 2.2: softmax(Q K^T / sqrt(H)) V over
chosen blocks.

Each head of a query attends to its own block of keys and to the earlier blocks whose mean key has the largest product
with the query (`kernels.moba_mask`). The choice has no parameters and no gradient.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Array

from attention_research.kernels.variants import moba_mask
from attention_research.layers.attention.multi_head import Mask, MultiHeadAttention, Where
from attention_research.signatures import Positive


class MobaAttention(MultiHeadAttention):
    """Scaled dot-product attention to `top_k` blocks, the query's own included, for decoders.

    `block_size` is the number of keys of a block. `top_k` counts the query's own block, as in the released code.
    """

    def __init__(self, *, block_size: Positive = 512, top_k: Positive = 3, **inherited: Any):
        super().__init__(**inherited)
        self.block_size, self.top_k = block_size, top_k

    def visible(self, query: Array, key: Array, where: Where) -> Mask:
        """The keys of the chosen blocks."""
        sizes = {"block_size": self.block_size, "top_k": self.top_k}
        return moba_mask(query, key, where.mask, **sizes, query_offset=where.offset)
