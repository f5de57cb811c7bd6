"""Blocks of keys that each query counts from the first key it may attend to, so that packed examples start anew."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.kernels.symbolic import expect_numbers


class ExampleBlocks(NamedTuple):
    """The `number` blocks of `size` keys, for visible pairs [B N T S] of which all axes but the last two may be 1.

    `of_key` is the block of each key, `own` that of the query itself, and `place` the position of the query in its
    example. Blocks of keys before the first visible one do not exist, and those keys are not visible.
    """

    size: int
    number: int
    visible: Bool[Array, "B N T S"]
    start: Int[Array, "B N T 1"]
    of_key: Int[Array, "B N T S"]
    own: Int[Array, "B N T 1"]
    place: Int[Array, "B N T 1"]

    def sums(self, pairs: Float[Array, "B N T S"]) -> Float[Array, "B N T blocks"]:
        """The sum over the visible keys of each block."""
        S, length = pairs.shape[-1], self.number * self.size
        pairs = jnp.where(self.visible, pairs, jnp.zeros_like(pairs))
        pairs = jnp.pad(pairs, [(0, 0)] * 3 + [(0, length)])  # the column S is 0
        columns = jnp.minimum(self.start + jnp.arange(length, dtype=jnp.int32), S)
        columns = jnp.broadcast_to(columns, (*pairs.shape[:3], length))
        aligned = jnp.take_along_axis(pairs, columns, axis=3)
        return aligned.reshape(*pairs.shape[:3], self.number, self.size).sum(-1)

    def spread(self, blocks: Array) -> Array:
        """The value of its block for every key: [B N T blocks] -> [B N T S]. It is arbitrary at keys not visible."""
        index = jnp.broadcast_to(self.of_key, (*blocks.shape[:3], self.of_key.shape[3]))
        return jnp.take_along_axis(blocks, index, axis=3)


def example_blocks(
    visible: Bool[Array, "#B #N T S"], size: int, query_offset: int | Int[Array, ""] = 0
) -> ExampleBlocks:
    """The blocks of each query i, which is at position i + query_offset of the keys. Raises ValueError naming `size`.

    >>> blocks = example_blocks(jnp.tril(jnp.ones((1, 1, 4, 4), bool)), 2)
    >>> blocks.sums(jnp.ones((1, 1, 4, 4)))[0, 0].tolist()  # visible keys in each of the two blocks
    [[1.0, 0.0], [2.0, 0.0], [2.0, 1.0], [2.0, 2.0]]
    """
    if size < 1:
        raise ValueError(f"block_size: expected at least 1, got {size}")
    T, S = visible.shape[2:]
    expect_numbers("block_size", S=S)
    number = max(1, -(-S // size))
    start = jnp.argmax(visible, axis=3, keepdims=True).astype(jnp.int32) if S else jnp.zeros((1, 1, T, 1), jnp.int32)
    rows = (jnp.arange(T, dtype=jnp.int32) + as_int32("query_offset", query_offset))[:, None]
    place = jnp.maximum(rows - start, 0)
    of_key = jnp.clip((jnp.arange(S, dtype=jnp.int32) - start) // size, 0, number - 1)
    return ExampleBlocks(size, number, visible, start, of_key, jnp.minimum(place // size, number - 1), place)


def largest_blocks(scores: Float[Array, "B N T blocks"], number: int) -> Bool[Array, "B N T blocks"]:
    """The `number` largest scores of each row, ties by the lowest index. Scores of -inf are not chosen."""
    values, places = lax.top_k(lax.stop_gradient(scores), min(number, scores.shape[-1]))
    return jnp.put_along_axis(jnp.zeros(scores.shape, bool), places, values > -jnp.inf, axis=-1, inplace=False)
