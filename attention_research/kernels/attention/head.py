"""One head of blockwise attention: its 2-D arrays, and the logits of a block of queries and a span of keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from attention_research.kernels.attention.arguments import Arrays, Options, capped, in_band, same_segment
from attention_research.kernels.attention.distances import skewed, spread
from attention_research.kernels.attention.layout import Plan, Ranges, Span, Strip, widths
from attention_research.kernels.precision import accumulator

# Contracting the last axes (A @ B.T) and the first axes (A.T @ B) of two matrices.
LAST = (((1,), (1,)), ((), ()))
FIRST = (((0,), (0,)), ((), ()))


def at(*starts: Array | int) -> tuple[Array, ...]:
    """The start indices of a dynamic slice, as int32 also under x64."""
    return tuple(jnp.asarray(start, jnp.int32) for start in starts)


class Head:
    """Head number `index` of B*N of `arrays`, in the layout [B N T H]. Optional arrays may be None (see `Arrays`)."""

    def __init__(self, arrays: Arrays, options: Options, layout: Plan, ranges: Ranges | None, index: Array):
        N, K = arrays.query.shape[1], arrays.key.shape[1]
        self.arrays, self.options, self.layout, self.ranges = arrays, options, layout, ranges
        self.index, self.batch, self.head = index, index // N, index % N
        self.dtype = accumulator(arrays.query.dtype)
        self.query = self.matrix(arrays.query, self.head)
        self.key = self.matrix(arrays.key, self.head // (N // K))
        self.value = self.matrix(arrays.value, self.head // (N // K))
        self.tables = {name: self.table(name) for name in ("key_table", "value_table")}
        self.sink = None
        if arrays.sink is not None:
            self.sink = arrays.sink[self.head if arrays.sink.shape[0] > 1 else 0].astype(self.dtype)
        self.by_distance = None
        if arrays.distance_bias is not None:
            own = arrays.distance_bias[self.head if arrays.distance_bias.shape[0] > 1 else 0]
            self.by_distance = skewed(own.astype(self.dtype), layout.block)

    def matrix(self, array: Array, head: Array) -> Array:
        """The matrix [T H] of this batch element and head, in the accumulator's dtype."""
        part = lax.dynamic_slice(array, at(self.batch, head, 0, 0), (1, 1, *array.shape[2:]))
        return part[0, 0].astype(self.dtype)

    def table(self, name: str) -> Array | None:
        table = getattr(self.arrays, name)
        return None if table is None else table.astype(self.dtype)

    def rows(self, block: Array, array: Array) -> Array:
        """The rows of `array` [T ...] in the block."""
        return lax.dynamic_slice_in_dim(array, self.first_row(block), self.layout.block)

    def first_row(self, block: Array) -> Array:
        return jnp.minimum(block * self.layout.block, self.query.shape[0] - self.layout.block)

    def over_keys(self, strip: Strip, block: Array, body: Callable[[Span], Any], skipped: Any) -> Any:
        """body(the span of visible keys of the block), or `skipped` if no key is visible.

        A span that is found at run time gets the narrowest sufficient width from a few compiled widths.
        """
        start = self.first_key(strip, block)
        if self.ranges is None:
            return body(Span(start, strip.width))
        low = jnp.maximum(self.ranges.low[self.batch, block], start)
        high = jnp.minimum(self.ranges.high[self.batch, block], start + strip.width)
        ladder = widths(strip.width)
        rung = sum((high - low > width).astype(jnp.int32) for width in ladder) + (high > low).astype(jnp.int32)
        branches = [lambda low, w=width: body(Span(jnp.clip(low, strip.start, strip.stop - w), w)) for width in ladder]
        return lax.switch(rung, [lambda low: skipped, *branches], low)

    def blocks(self, strip: Strip, before: Array) -> Array:
        """The numbers of the blocks of a strip. With many scores, they depend on `before`, the previous strip's result.

        XLA starts all independent strips before the first one is done, and holds the scores of all of them. This is
        faster while the scores fit in the caches, else slower, and memory is then not linear. The data dependency
        prevents it: it uses the fact that an index is never negative, which XLA does not know. (XLA removes an
        optimization barrier before it orders the program.) JAX does not know it either; otherwise, it would compute
        the masks of several blocks once for all heads and keep them.
        """
        count = strip.last - strip.first
        if self.layout.ordered():
            first = jnp.where(self.index < 0, before.ravel()[0].astype(jnp.int32), strip.first)
        else:
            first = strip.first if count == 1 else jnp.where(self.index < 0, self.index, strip.first)
        return first + jnp.arange(count, dtype=jnp.int32)

    def first_key(self, strip: Strip, block: Array) -> Array | int:
        if strip.width == strip.stop - strip.start:
            return strip.start
        assert self.options.left is not None  # only with a window is a strip wider than its visible keys
        return jnp.clip(self.first_row(block) - self.options.left, strip.start, strip.stop - strip.width)

    def keys(self, span: Span, array: Array) -> Array:
        """The rows of key or value `array` in the span."""
        if span.width == array.shape[0]:
            return array
        return lax.dynamic_slice_in_dim(array, span.start, span.width)

    def corner(self, array: Array, span: Span, block: Array) -> tuple[tuple, tuple[int, ...]]:
        """The (starts, sizes) of the block in a broadcast [B N T S] array."""
        starts = (self.batch, self.head, self.first_row(block), span.start)
        sizes = (1, 1, self.layout.block, span.width)
        whole = [size == 1 for size in array.shape]
        starts = at(*(0 if one else start for start, one in zip(starts, whole, strict=True)))
        return starts, tuple(1 if one else size for size, one in zip(sizes, whole, strict=True))

    def part(self, array: Array, span: Span, block: Array) -> Array:
        """The 2-D part of a broadcast [B N T S] array for the block. Broadcast axes have size 1."""
        return lax.dynamic_slice(array, *self.corner(array, span, block))[0, 0]

    def distance_corner(self, span: Span, block: Array) -> tuple[tuple[Array, ...], tuple[int, int]]:
        """The (starts, sizes) of the block in the skewed bias by distance."""
        first = span.start - self.first_row(block) + self.query.shape[0] - self.layout.block
        return at(0, first), (self.layout.block, span.width)

    def logits(self, span: Span, block: Array) -> tuple[Array, Array, Array, Array | None]:
        """Returns (the scaled query block, the keys, the logits, the derivative of the soft cap or None).

        Logits of masked keys are -inf.
        """
        arrays, options = self.arrays, self.options
        query = self.rows(block, self.query) * jnp.asarray(options.scale, self.dtype)
        key = self.keys(span, self.key)
        logits = lax.dot_general(query, key, LAST)
        if self.tables["key_table"] is not None:
            by_distance = lax.dot_general(query, self.tables["key_table"], LAST)
            logits = spread(by_distance, self.first_distance(span, block), logits)
        logits, slope = capped(logits, options.soft_cap), None
        if options.soft_cap is not None:
            slope = 1 - (logits / options.soft_cap) ** 2
        if arrays.bias is not None:
            logits = logits + self.part(arrays.bias, span, block).astype(self.dtype)
        if self.by_distance is not None:
            logits = logits + lax.dynamic_slice(self.by_distance, *self.distance_corner(span, block))
        for term in self.visible(span, block):
            if term is not None:
                logits = jnp.where(term, logits, -jnp.inf)
        return query, key, logits, slope

    def visible(self, span: Span, block: Array) -> list[Array | None]:
        """The visibility masks of the block from band, mask, lengths and segments, one for each (or None)."""
        arrays = self.arrays
        rows = self.first_row(block) + jnp.arange(self.layout.block, dtype=jnp.int32)[:, None]
        columns = span.start + jnp.arange(span.width, dtype=jnp.int32)[None, :]
        moved = rows if arrays.query_offset is None else rows + arrays.query_offset[self.batch]
        terms = [in_band(moved, columns, self.options)]
        if arrays.mask is not None:
            terms.append(self.part(arrays.mask, span, block))
        if arrays.query_lengths is not None:
            terms.append(rows < arrays.query_lengths[self.batch])
        if arrays.key_lengths is not None:
            terms.append(columns < arrays.key_lengths[self.batch])
        if arrays.query_segments is not None and arrays.key_segments is not None:
            own = self.rows(block, arrays.query_segments[self.batch])
            terms.append(same_segment(own[:, None], self.keys(span, arrays.key_segments[self.batch])[None, :]))
        return terms

    def first_distance(self, span: Span, block: Array) -> Array:
        """The distance from the first query of the block to the first key of the span."""
        return span.start - self.first_row(block)

    def join(self, blocks: list[Array]) -> Array:
        """Joins pieces [count, block, ...] to [T ...], without the rows that the last block repeats."""
        T, block, count = self.query.shape[0], self.layout.block, self.layout.count
        stacked = jnp.concatenate(blocks) if len(blocks) > 1 else blocks[0]
        rows = stacked.reshape(count * block, *stacked.shape[2:])
        if count * block == T:
            return rows
        return jnp.concatenate([rows[: (count - 1) * block], rows[count * block - (T - (count - 1) * block) :]])
