"""Sparse Sinkhorn attention, Tay et al. 2020 (arXiv 2002.11296): blocks attend to their own keys and to sorted ones.

The sorting network is one linear map of a block's summed keys, [H blocks], as in the authors' Long Range Arena code,
where the rows of its result are the key blocks and are summed over before use; here row b is what block b receives.
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
    """Blocks of `block_size` positions, at most `max_length` of these; `iterations` of balancing."""

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
        """What each block thinks of receiving each block. Raises ValueError beyond `max_length`."""
        flat = key.reshape(*key.shape[:2], -1)
        blocks = block_summaries(flat, self.block_size, mask=real)
        count, most = blocks.shape[1], self.sort.kernel[...].shape[1]
        if count > most:
            raise ValueError(f"Sinkhorn: {key.shape[1]} positions, but it sorts at most {most} blocks")
        return self.sort(blocks.reshape(*blocks.shape[:2], *key.shape[2:])).swapaxes(1, 2)[..., :count]

    def attend(self, query: Array, key: Array, value: Array, real: Array | None) -> Array:
        """Section 3, one softmax over the sorted block and the own one."""
        settings: dict[str, Any] = {"block_size": self.block_size, "iterations": self.iterations, "mask": real}
        return sinkhorn_attention(query, key, value, self.scores(key, real), **settings)
