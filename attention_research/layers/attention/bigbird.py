"""BigBird, Zaheer et al. 2020 (arXiv 2007.14062): a block attends to its neighbours, to global and to random blocks.

The random graph is drawn with the parameters, one a layer for sequences up to `max_length`, and stays, among the
statistics; a shorter sequence leaves out the blocks that it does not have. Global are the first `global_blocks`: the
released code takes the first and the last, which with padding is another one for the same text.
"""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array

from attention_research.kernels import bigbird_attention
from attention_research.kernels.efficient import bigbird_random_blocks
from attention_research.layers.attention.sums_of_values import SumOfValues
from attention_research.signatures import NonNegative, Positive


class BigBirdAttention(SumOfValues):
    """Blocks of `block_size` positions; `window_blocks`, an odd number, counts the block itself."""

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
        super().__init__(value_head_width=None, rngs=rngs, **inherited)
        self.block_size, self.window_blocks = block_size, window_blocks
        self.global_blocks = tuple(range(global_blocks))
        drawn = bigbird_random_blocks(rngs.params(), -(-max_length // block_size), random_blocks, **self._fixed())
        self.random_blocks = nnx.BatchStat(drawn)

    def _fixed(self) -> dict:
        """What of the graph is not drawn."""
        return {"window_blocks": self.window_blocks, "global_blocks": self.global_blocks}

    def attend(self, query: Array, key: Array, value: Array, real: Array | None) -> Array:
        """Softmax over the keys of all connected blocks. Raises ValueError beyond `max_length`."""
        blocks, drawn = -(-query.shape[1] // self.block_size), self.random_blocks[...]
        if blocks > drawn.shape[0]:
            raise ValueError(f"BigBird: {query.shape[1]} positions, but its graph has {drawn.shape[0]} blocks")
        where = {"block_size": self.block_size, "random_blocks": drawn[:blocks], **self._fixed()}
        return bigbird_attention(query, key, value, mask=real, **where)
