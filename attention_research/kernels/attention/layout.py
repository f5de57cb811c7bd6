"""The partition of blockwise attention: blocks of queries, and the span of visible keys of each block."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int

from attention_research.kernels.attention.arguments import Arrays, Options

#: Queries per block. 512 is fastest forward and backward (measured on 2 cores at T = 512 to 4096).
QUERY_BLOCK = 512
#: Smaller blocks of a window or a causal triangle cost more in dispatch than they save in keys. A triangle is split
#: into eight blocks if possible, which compute 9/16 of the square.
SMALLEST_BLOCK = 128
#: The maximum number of strips of a causal triangle, which limits the size of the program.
MOST_STRIPS = 16
#: Up to this number of bytes of scores, the strips of a head may be computed at the same time.
TOGETHER = 2**22
#: The number of compiled widths for spans that are found at run time.
WIDTHS = 4


class Strip(NamedTuple):
    """Blocks first <= i < last of the queries. Each block reads `width` keys within [start, stop)."""

    first: int
    last: int
    start: int
    stop: int
    width: int


class Plan(NamedTuple):
    """The partition of one head into blocks of `block` queries.

    If `block` does not divide T, the last block overlaps the previous one.
    """

    block: int
    count: int  # type: ignore[assignment]  # a number here, which hides tuple.count
    strips: tuple[Strip, ...]

    def ordered(self) -> bool:
        """Whether strips must be computed in order, because one block of each has too many scores in total."""
        return 4 * sum(self.block * strip.width for strip in self.strips) > TOGETHER


class Span(NamedTuple):
    """The keys start <= j < start + width. Only the width is static."""

    start: Array | int
    width: int


class Ranges(NamedTuple):
    """The range low <= j < high contains all visible keys of a block. It is computed at run time from the arrays."""

    low: Int[Array, "B count"]
    high: Int[Array, "B count"]


def plan(query_length: int, key_length: int, options: Options, found: bool = False, moved: bool = False) -> Plan:
    """Plans blocks of equal size and the visible keys of each block.

    With `found`, the spans of keys are found at run time instead. With `moved`, the queries have an offset that is
    known only at run time, so that the band cannot be used here.
    """
    T, S = query_length, key_length
    left, right = (None, None) if moved else (options.left, options.right)
    query_block = QUERY_BLOCK
    if left is not None and right is not None:
        query_block = min(query_block, max(SMALLEST_BLOCK, left + right))
    elif not found and (left is not None or right is not None):
        query_block = min(query_block, max(SMALLEST_BLOCK, math.ceil(T / 8)))
    count = math.ceil(T / query_block)
    block = math.ceil(T / count)
    count = math.ceil(T / block)
    if left is not None and right is not None:
        return Plan(block, count, (Strip(0, count, 0, S, min(S, block + left + right)),))
    if found or (left is None and right is None):
        return Plan(block, count, (Strip(0, count, 0, S, S),))
    strips = []
    size = math.ceil(count / MOST_STRIPS)
    for first in range(0, count, size):
        last = min(first + size, count)
        start = 0 if left is None else max(0, min(min(first * block, T - block) - left, S - 1))
        stop = S if right is None else max(start + 1, min(S, last * block + right))
        strips.append(Strip(first, last, start, stop, stop - start))
    return Plan(block, count, tuple(strips))


def widths(widest: int) -> tuple[int, ...]:
    """The possible widths of a span that is found at run time."""
    return tuple(sorted({math.ceil(widest * part / WIDTHS) for part in range(1, WIDTHS + 1)}))


def finds(arrays: Arrays) -> bool:
    """Whether the arrays determine at run time which keys a block can skip."""
    found = (arrays.query_lengths, arrays.key_lengths, arrays.query_segments, arrays.query_offset)
    return any(array is not None for array in found)


def ranges(arrays: Arrays, options: Options, layout: Plan) -> Ranges | None:
    """The range of keys that lengths, segments and offsets leave visible to each block, or None if all are absent."""
    if not finds(arrays):
        return None
    (B, T), S = arrays.query.shape[:2], arrays.key.shape[1]
    number = jnp.arange(S, dtype=jnp.int32)
    first = jnp.minimum(jnp.arange(layout.count, dtype=jnp.int32) * layout.block, T - layout.block)
    low = jnp.zeros((B, layout.count), jnp.int32)
    high = jnp.full((B, layout.count), S, jnp.int32)
    moved = first if arrays.query_offset is None else first + arrays.query_offset[:, None]
    if options.left is not None:
        low = jnp.maximum(low, moved - options.left)
    if options.right is not None:
        high = jnp.minimum(high, moved + layout.block + options.right)
    if arrays.key_lengths is not None:
        high = jnp.minimum(high, arrays.key_lengths[:, None])
    if arrays.query_lengths is not None:
        high = jnp.where(first < arrays.query_lengths[:, None], high, 0)
    if arrays.query_segments is not None and arrays.key_segments is not None:
        rows = first[:, None] + jnp.arange(layout.block, dtype=jnp.int32)
        segments = arrays.query_segments[:, rows]
        most = jnp.iinfo(segments.dtype).max
        least = jnp.min(jnp.where(segments == 0, most, segments), axis=-1, keepdims=True)
        keys = arrays.key_segments[:, None, :]
        seen = (keys != 0) & (keys >= least) & (keys <= jnp.max(segments, axis=-1, keepdims=True))
        low = jnp.maximum(low, jnp.min(jnp.where(seen, number, S), axis=-1))
        high = jnp.minimum(high, jnp.max(jnp.where(seen, number + 1, 0), axis=-1))
    return Ranges(low, high)
