"""BigBird, Zaheer et al. 2020 (arXiv 2007.14062): a block attends to neighbouring, global and random blocks.

Each layer draws its random graph at initialization, for sequences up to `max_length`, and keeps it as a constant
statistic. For a shorter sequence, blocks beyond its end are left out. The first `global_blocks` blocks are global. The
released code uses the first and the last block instead, so that there the amount of padding changes the graph.
"""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array

from attention_research.errors import ConfigError
from attention_research.kernels import bigbird_attention
from attention_research.kernels.efficient import bigbird_random_blocks
from attention_research.layers.attention.sums_of_values import SumOfValues
from attention_research.signatures import NonNegative, Positive


class BigBirdAttention(SumOfValues):
    """Sparse attention between blocks of `block_size` positions. `window_blocks` is odd and counts the block itself.

    Each block also attends to `random_blocks` random blocks. Raises ConfigError for an even `window_blocks`.
    """

    def __init__(
        self,
        *,
        max_length: Positive,
        block_size: Positive = 64,
        window_blocks: Positive = 3,
        global_blocks: NonNegative = 2,
        random_blocks: Positive = 3,
        rngs: nnx.Rngs,
        **inherited: Any,
    ):
        if window_blocks % 2 == 0:
            raise ConfigError(f"window_blocks: expected an odd number, got {window_blocks}")
        super().__init__(value_head_width=None, rngs=rngs, **inherited)
        self.block_size, self.window_blocks = block_size, window_blocks
        self.global_blocks = tuple(range(global_blocks))
        drawn = bigbird_random_blocks(rngs.params(), -(-max_length // block_size), random_blocks, **self._fixed())
        self.random_blocks = nnx.BatchStat(drawn)

    def _fixed(self) -> dict:
        """The part of the graph that is not random."""
        return {"window_blocks": self.window_blocks, "global_blocks": self.global_blocks}

    def attend(self, query: Array, key: Array, value: Array, real: Array | None) -> Array:
        """Softmax over the keys of all connected blocks. Raises ValueError for sequences beyond `max_length`."""
        blocks, drawn = -(-query.shape[1] // self.block_size), self.random_blocks[...]
        if blocks > drawn.shape[0]:
            raise ValueError(f"BigBird: {query.shape[1]} positions, but its graph has {drawn.shape[0]} blocks")
        where = {"block_size": self.block_size, "random_blocks": drawn[:blocks], **self._fixed()}
        return bigbird_attention(query, key, value, mask=real, **where)
