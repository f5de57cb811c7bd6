"""Tiles of arrays inside a Pallas kernel: masked loads and stores at the end of an axis, and the logits of a tile."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array

from attention_research.kernels.attention.arguments import Arrays, Options, capped, in_band, same_segment
from attention_research.kernels.precision import accumulator

LOG2E = math.log2(math.e)
#: `Arrays` with the shapes of the arrays.
Shapes = Any


class Span(NamedTuple):
    """`size` positions from `start` on, of an axis of `length`. Some positions may be beyond the end."""

    start: Array
    size: int
    length: int

    def at(self) -> Array:
        return self.start + lax.iota(jnp.int32, self.size)

    def inside(self) -> Array | None:
        """The mask of positions within the axis, or None if all are within it."""
        return None if self.length % self.size == 0 else self.at() < self.length

    def slice(self):
        return pl.ds(self.start, self.size)


def _mask(shape: tuple[int, ...], inside: tuple[Array | None, ...]) -> Array | None:
    """A mask of `shape` from one vector per axis (None: all positions), or None if all positions are inside."""
    mask = None
    for axis, part in enumerate(inside):
        if part is not None:
            part = part.reshape([-1 if n == axis else 1 for n in range(len(shape))])
            mask = part if mask is None else mask & part
    return None if mask is None else jnp.broadcast_to(mask, shape)


def load(ref, at: tuple, shape: tuple[int, ...], *inside: Array | None) -> Array:
    """Loads ref[at] of this shape, with 0 outside of `inside` (one vector per axis)."""
    mask = _mask(shape, inside)
    if mask is None:  # the Triton lowering of ref[at] (JAX 0.10.2) does not support a constant start
        return triton.load(ref.at[at])
    return triton.load(ref.at[at], mask=mask, other=jnp.zeros((), ref.dtype))


def store(ref, at: tuple, value: Array, *inside: Array | None) -> None:
    triton.store(ref.at[at], value.astype(ref.dtype), mask=_mask(value.shape, inside))


def dot(a: Array, b: Array, **transposed: bool) -> Array:
    return triton.dot(a, b, **transposed)


def exp_below(logits: Array, largest: Array) -> Array:
    """`arguments.exp_below` with the exponential of base 2.

    The factor log2(e) is applied after the difference. Applied before, it would make finfo.min infinite.
    """
    difference = jnp.where(largest < jnp.inf, logits, jnp.nan) - largest
    return jnp.exp2(jnp.where(difference > 0, jnp.zeros_like(difference), difference) * LOG2E)


def _all(ref) -> slice | pl.Slice:
    """The whole last axis, with an int32 start also under x64."""
    return pl.ds(jnp.zeros((), jnp.int32), ref.shape[-1])


def _columns(ref, shape: tuple[int, ...]) -> Array | None:
    """The mask of columns of a padded ref that are not padding, or None if there is no padding."""
    return None if ref.shape[-1] == shape[-1] else lax.iota(jnp.int32, ref.shape[-1]) < shape[-1]


class Refs:
    """The inputs of a kernel: the arrays in memory, and their shapes without the padding of head widths."""

    def __init__(self, refs: Arrays, shapes: Shapes, options: Options):
        self.refs, self.shapes, self.options = refs, shapes, options
        self.dtype = accumulator(refs.query.dtype)
        self.queries, self.keys = shapes.query[1], shapes.key[1]

    def rows(self, ref, shape: tuple[int, ...], batch: Array, span: Span, head: Array) -> Array:
        """Loads [size, padded width] from a [B T N H] array."""
        at = (batch, span.slice(), head, _all(ref))
        return load(ref, at, (span.size, ref.shape[3]), span.inside(), _columns(ref, shape))

    def query(self, batch, span, head) -> Array:
        return self.rows(self.refs.query, self.shapes.query, batch, span, head)

    def key(self, batch, span, head) -> Array:
        return self.rows(self.refs.key, self.shapes.key, batch, span, head)

    def value(self, batch, span, head) -> Array:
        return self.rows(self.refs.value, self.shapes.value, batch, span, head)

    def vector(self, ref, batch, head, span: Span) -> Array:
        """Loads [size] from a [B N T] array."""
        return load(ref, (batch, head, span.slice()), (span.size,), span.inside())

    def ids(self, ref, batch, span: Span) -> Array:
        """Loads [size] from a [B T] array."""
        return load(ref, (batch, span.slice()), (span.size,), span.inside())

    def tile(self, ref, batch, head, rows: Span, columns: Span) -> Array:
        """Loads the 2-D block of a broadcast [B N T S] array. Broadcast axes have size 1."""
        B, N, T, S = ref.shape
        zero = jnp.zeros((), jnp.int32)
        at = (batch if B > 1 else zero, head if N > 1 else zero)
        spans = [span if size > 1 else None for span, size in ((rows, T), (columns, S))]
        at += tuple(zero if span is None else span.slice() for span in spans)
        kept = [span for span in spans if span is not None]
        part = load(ref, at, tuple(span.size for span in kept), *(span.inside() for span in kept))
        return part.reshape([1 if span is None else span.size for span in spans])

    def sink(self, head) -> Array:
        """The sink of the head."""
        sink: Any = self.refs.sink
        return sink[head if sink.shape[0] > 1 else jnp.zeros((), jnp.int32)].astype(self.dtype)

    def logits(self, query: Array, key: Array, batch, head, rows: Span, columns: Span) -> tuple[Array, Array | None]:
        """Returns (the capped and biased logits, -inf at masked keys; the derivative of the cap or None)."""
        refs, cap, slope = self.refs, self.options.soft_cap, None
        logits = capped(dot(query, key, trans_b=True) * self.options.scale, cap)
        if cap is not None:
            slope = 1 - (logits / cap) * (logits / cap)
        if refs.bias is not None:
            logits = logits + self.tile(refs.bias, batch, head, rows, columns).astype(self.dtype)
        row, column = rows.at()[:, None], columns.at()[None, :]
        terms = [in_band(row, column, self.options)]
        inside = columns.inside()
        terms.append(None if inside is None else inside[None, :])
        if refs.query_lengths is not None:
            terms.append(row < refs.query_lengths[batch])
        if refs.key_lengths is not None:
            terms.append(column < refs.key_lengths[batch])
        if refs.query_segments is not None:
            ids = (self.ids(refs.query_segments, batch, rows)[:, None], self.ids(refs.key_segments, batch, columns))
            terms.append(same_segment(ids[0], ids[1][None, :]))
        if refs.mask is not None:
            terms.append(self.tile(refs.mask, batch, head, rows, columns))
        for term in terms:
            if term is not None:
                logits = jnp.where(jnp.broadcast_to(term, logits.shape), logits, -jnp.inf)
        return logits, slope


def store_rows(ref, shape: tuple[int, ...], batch, span: Span, head, rows: Array) -> None:
    """Stores [size, padded width] into a [B T N H] array with `shape` without padding."""
    store(ref, (batch, span.slice(), head, _all(ref)), rows, span.inside(), _columns(ref, shape))
