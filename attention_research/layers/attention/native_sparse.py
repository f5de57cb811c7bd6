"""Native sparse attention (NSA), Yuan et al. 2025 (arXiv 2502.11089), section 3: the gated sum of compressed, selected
and windowed attention.

The gates of the branches are sigmoid(x W), one of each per head. Blocks are compressed by the mean of their keys and
values, and the branches share keys and values, as in flash-linear-attention (`kernels.native_sparse_attention`).
"""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx
from jaxtyping import Array

from attention_research.kernels.variants import native_sparse_attention
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where, weights_of
from attention_research.layers.linear import Linear
from attention_research.signatures import NonNegative, Positive


class NativeSparseAttention(MultiHeadAttention):
    """Attention to block means, to chosen blocks and to a window, for decoders.

    `block_size` is the number of keys of a block, `num_blocks` the number of chosen blocks, the query's own, the one
    before and the first included. `window` is the number of keys before the query in the window.
    """

    def __init__(
        self,
        *,
        width: Positive,
        block_size: Positive = 64,
        num_blocks: Positive = 16,
        window: NonNegative = 511,
        rngs: nnx.Rngs,
        **inherited: Any,
    ):
        super().__init__(width=width, rngs=rngs, **inherited)
        self.block_size, self.num_blocks, self.window = block_size, num_blocks, window
        self.gate = Linear(width, 3 * self.num_heads, rngs=rngs)

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """(the gated sum of the branches, its weights)."""
        query, key, value = self.prepare(query, key, value, where)
        assert where.x is not None
        gates = jax.nn.sigmoid(self.gate(where.x)).reshape(*query.shape[:3], 3)

        def attend(value: Array) -> Array:
            return native_sparse_attention(
                query, key, value, gates, where.mask, block_size=self.block_size, num_blocks=self.num_blocks,
                window=self.window, scale=self.scale, query_offset=where.offset,
            )  # fmt: skip

        return attend(value), weights_of(attend, key, value.dtype)
