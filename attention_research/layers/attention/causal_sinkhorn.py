"""Causal Sinkhorn attention, Tay et al. 2020 (arXiv 2002.11296), section 3.2: blocks receive earlier blocks only.

The weights of the blocks that block b receives are computed from the sum of the keys of the blocks before b, so that no
position sees its own block's future. A cache holds all keys and values, and a decoding step sorts all blocks again.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.kernels.efficient import block_summaries, sinkhorn_attention
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where, weights_of
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive


class CausalSinkhornAttention(MultiHeadAttention):
    """Sinkhorn attention with blocks of `block_size` positions, for sequences up to `max_length`.

    `iterations` is the number of Sinkhorn normalization steps. Raises ValueError for packed rows and beyond
    `max_length`.
    """

    def __init__(
        self,
        *,
        max_length: Positive,
        block_size: Positive = 50,
        iterations: Positive = 5,
        rngs: nnx.Rngs,
        **inherited: Any,
    ):
        super().__init__(rngs=rngs, **inherited)
        self.block_size, self.iterations = block_size, iterations
        self.sort = Linear(self.head_width, -(-max_length // block_size), use_bias=False, rngs=rngs)

    def scores(self, key: Float[Array, "B T K H"], real: Bool[Array, "B T"] | None) -> Float[Array, "B K C C"]:
        """The sorting score of each pair (receiving block, block), from the keys before the receiving block."""
        flat = key.reshape(*key.shape[:2], -1)
        blocks = block_summaries(flat, self.block_size, mask=real)
        before = jnp.cumsum(blocks, axis=1) - blocks
        count, most = blocks.shape[1], self.sort.kernel[...].shape[1]
        if count > most:
            raise ValueError(f"Sinkhorn: {key.shape[1]} positions are {count} blocks; expected at most {most} blocks")
        return self.sort(before.reshape(*blocks.shape[:2], *key.shape[2:])).swapaxes(1, 2)[..., :count]

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """Section 3 with causal sorting. In a decoding step, the query takes the place of its position."""
        mask = where.mask
        if mask is not None and mask.shape[1:3] != (1, 1):
            raise ValueError(f"causal Sinkhorn attention takes only a key mask [B 1 1 S], not {list(mask.shape)}")
        real = None if mask is None else jnp.broadcast_to(mask[:, 0, 0], key.shape[:2])
        steps = not isinstance(where.offset, int)
        rows = jnp.broadcast_to(query, (query.shape[0], key.shape[1], *query.shape[2:])) if steps else query

        def attend(value: Array) -> Array:
            context = sinkhorn_attention(
                rows, key, value, self.scores(key, real), block_size=self.block_size, iterations=self.iterations,
                mask=real, is_causal=True,
            )  # fmt: skip
            return jax.lax.dynamic_slice_in_dim(context, where.offset, 1, 1) if steps else context

        return attend(value), weights_of(attend, key, value.dtype)
