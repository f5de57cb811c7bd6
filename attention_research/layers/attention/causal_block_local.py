"""Causal block-local attention, Liu et al. 2018 (arXiv 1801.10198): softmax over the keys j <= i of the query's block.

Blocks are disjoint and counted within the row. A cache holds one block.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from attention_research.kernels import block_local_attention
from attention_research.layers.attention.multi_head import Mask, Where, weights_of
from attention_research.layers.attention.windowed import Windowed
from attention_research.signatures import Positive


class CausalBlockLocalAttention(Windowed):
    """Attention to earlier positions of the same block of `block_size` positions, and to the position itself."""

    cost = ("min(S, block_size)*K*(H + Hv)", 1)

    def __init__(self, *, block_size: Positive = 50, **inherited: Any):
        super().__init__(**inherited)
        self.block_size = self.ring = block_size

    def seen_from(self, index: Int[Array, ""], positions: Int[Array, "C"]) -> Bool[Array, "C"]:
        """The positions of the same block."""
        return positions // self.block_size == index // self.block_size

    def visible(self, query: Array, key: Array, where: Where) -> Mask | None:
        """The blocks, for packed rows."""
        if where.places is not None:
            return super().visible(query, key, where)
        block = lambda length: jnp.arange(length) // self.block_size
        return (block(query.shape[1])[:, None] == block(key.shape[1]))[None, None]

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """In training, blocks are computed one by one unless rows are packed."""
        mask = where.mask
        if where.places is not None or (mask is not None and mask.shape[1:3] != (1, 1)):
            return super().mix(query, key, value, where)
        real = None if mask is None else jnp.broadcast_to(mask[:, 0, 0], key.shape[:2])

        def attend(value: Array) -> Array:
            return block_local_attention(query, key, value, block_size=self.block_size, mask=real, is_causal=True)

        return attend(value), weights_of(attend, key, value.dtype)
