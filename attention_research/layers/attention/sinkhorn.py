"""Sparse Sinkhorn attention, Tay et al. 2020 (arXiv 2002.11296): a block attends to its own keys and to sorted keys.

The sorting network is one linear map [H blocks] of the summed keys of a block, as in the authors' Long Range Arena
code. In that code, the rows of the result are the key blocks, and the sum is over rows. Here, row b gives the weights
of the blocks that block b receives.
"""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.kernels.efficient import block_summaries, sinkhorn_attention
from attention_research.layers.attention.sums_of_values import SumOfValues
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive


class SinkhornAttention(SumOfValues):
    """Sinkhorn attention with blocks of `block_size` positions, for sequences up to `max_length`.

    `iterations` is the number of Sinkhorn normalization steps.
    """

    cost = (None, 2)  # pairs of blocks

    def __init__(
        self,
        *,
        max_length: Positive,
        block_size: Positive = 50,
        iterations: Positive = 5,
        rngs: nnx.Rngs,
        **inherited: Any,
    ):
        super().__init__(value_head_width=None, rngs=rngs, **inherited)
        self.block_size, self.iterations = block_size, iterations
        self.sort = Linear(self.head_width, -(-max_length // block_size), use_bias=False, rngs=rngs)

    def scores(self, key: Float[Array, "B T N H"], real: Bool[Array, "B T"] | None) -> Float[Array, "B N C C"]:
        """The sorting score of each pair (receiving block, block). Raises ValueError beyond `max_length`."""
        flat = key.reshape(*key.shape[:2], -1)
        blocks = block_summaries(flat, self.block_size, mask=real)
        count, most = blocks.shape[1], self.sort.kernel[...].shape[1]
        if count > most:
            raise ValueError(f"Sinkhorn: {key.shape[1]} positions are {count} blocks; expected at most {most} blocks")
        return self.sort(blocks.reshape(*blocks.shape[:2], *key.shape[2:])).swapaxes(1, 2)[..., :count]

    def attend(self, query: Array, key: Array, value: Array, real: Array | None) -> Array:
        """Section 3, with one softmax over the keys of the sorted block and of the query's own block."""
        settings: dict[str, Any] = {"block_size": self.block_size, "iterations": self.iterations, "mask": real}
        return sinkhorn_attention(query, key, value, self.scores(key, real), **settings)
