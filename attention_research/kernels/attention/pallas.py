"""FlashAttention-2, Dao 2023 (arXiv 2307.08691), algorithms 1 and 2: softmax(Q K^T scale + bias) V in tiles.

Written in Pallas for NVIDIA GPUs (its Triton lowering); elsewhere the same kernels run interpreted, which is for tests
and not for speed. A program owns a block of queries and walks over blocks of keys with a running maximum and sum; it
keeps the output and the log-sum-exp of each row. The gradient recomputes the probabilities P from the log-sum-exp:

    dV = P^T dO,  dS = P * (dO V^T - rowsum(dO * O)),  dQ = dS K scale,  dK = dS^T Q scale,  dbias = sum of dS

one kernel for dQ (a program owns queries), one for dK and dV (a program owns the keys of one key head and walks over
its query heads), and one for dbias where there is a bias: a program owns a block of the bias and walks over the batch
elements and heads that share it, so that sums need no atomic operations and two runs give the same bits. Blocks
outside the band and beyond the lengths are never read. Lengths are arbitrary: loads at the ragged edge are masked.

Conventions: products are in the inputs' dtype (float32 follows `jax_default_matmul_precision`, which is TF32 on the
GPUs that have it), sums and softmax in float32; the exponentials are base 2, with log2(e) multiplied into the scale.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array

from attention_research.kernels.attention.arguments import Arrays, Options, in_band
from attention_research.kernels.precision import accumulator

LOG2E = math.log2(math.e)
#: The tensor cores' tiles are at least this long on a side.
SMALLEST = 16
#: A wider head's tiles do not fit into shared memory.
WIDEST = 256


class Blocks(NamedTuple):
    """Forward: a program owns `query` rows and reads `key` keys at a time. Backward: it owns `own` rows (or keys) and
    reads `step` keys (or rows) at a time."""

    query: int
    key: int
    own: int
    step: int
    warps: int = 4


def default_blocks(dtype: jnp.dtype, width: int) -> Blocks:
    """By the bytes of a row of a tile; a choice from the published kernels, not a measurement."""
    row = jnp.dtype(dtype).itemsize * width
    if row <= 128:
        return Blocks(128, 64, 64, 64)
    if row <= 256:
        return Blocks(128, 64, 64, 32, 8)
    return Blocks(64, 32, 32, 32, 4) if row <= 512 else Blocks(32, 16, 16, 16)


def refusal(arrays: Arrays, options: Options) -> str | None:
    """Why these kernels cannot honour the arguments; None where they can."""
    backend = jax.default_backend()
    if backend not in ("gpu", "cpu"):
        return f"these Pallas kernels need a GPU (a CPU interprets them); the default backend is {backend}"
    if backend == "gpu" and arrays.query.dtype not in (jnp.bfloat16, jnp.float16, jnp.float32):
        return f"dtype of query: expected bfloat16, float16 or float32 on a GPU, got {arrays.query.dtype}"
    for name, axis, width in (("query", "H", arrays.query.shape[3]), ("value", "Hv", arrays.value.shape[3])):
        if width > WIDEST:
            return f"axis {axis} of {name}: expected up to {WIDEST}, got {width}"
    return None


def attend(arrays: Arrays, options: Options, blocks: Blocks | None = None) -> Array:
    """Equals `reference.attend`, memory linear in the lengths but for a bias and its gradient; [B T N Hv].

    Raises ValueError where `refusal` has a reason.
    """
    reason = refusal(arrays, options)
    if reason is not None:
        raise ValueError(f"implementation='pallas': {reason}")
    (_, T, _, H), S = arrays.query.shape, arrays.key.shape[1]
    if blocks is None:
        blocks = default_blocks(arrays.query.dtype, _power_of_two(max(H, arrays.value.shape[3])))
    longest = _power_of_two(max(T, S))
    blocks = Blocks(*(min(size, longest) for size in blocks[:4]), blocks.warps)
    return _attend(_vary_together(arrays), options, blocks)


def _power_of_two(size: int) -> int:
    return max(SMALLEST, 1 << (size - 1).bit_length())


class Span(NamedTuple):
    """`size` positions from `start` on an axis of `length`, some of which may lie beyond the end."""

    start: Array
    size: int
    length: int

    def at(self) -> Array:
        return self.start + lax.iota(jnp.int32, self.size)

    def inside(self) -> Array | None:
        """Which positions exist; None where all do."""
        return None if self.length % self.size == 0 else self.at() < self.length

    def slice(self):
        return pl.ds(self.start, self.size)


def _load(ref, at: tuple, *inside: Array | None) -> Array:
    """ref[at], 0 where `inside` (one vector an axis of the result, None: all inside) says that nothing is there."""
    mask = None
    for axis, part in enumerate(inside):
        if part is not None:
            part = part.reshape([-1 if n == axis else 1 for n in range(len(inside))])
            mask = part if mask is None else mask & part
    if mask is None:
        return ref[at]
    zero = jnp.zeros((), ref.dtype)
    shape = [piece.size for piece in at if isinstance(piece, pl.Slice)]
    return triton.load(ref.at[at], mask=jnp.broadcast_to(mask, shape), other=zero)


def _dot(a: Array, b: Array, **transposed: bool) -> Array:
    return triton.dot(a, b, **transposed)


class _Refs:
    """What a kernel reads: the arrays in memory, and the sizes that their refs do not show (widths are padded)."""

    def __init__(self, refs: Arrays, shapes: Arrays, options: Options):
        self.refs, self.shapes, self.options = refs, shapes, options
        self.dtype = accumulator(refs.query.dtype)
        self.queries, self.keys = shapes.query[1], shapes.key[1]

    def rows(self, ref, shape: tuple[int, ...], batch: Array, span: Span, head: Array) -> Array:
        """[size, padded width] of a [B T N H] array."""
        width = ref.shape[3]
        columns = None if width == shape[3] else lax.iota(jnp.int32, width) < shape[3]
        return _load(ref, (batch, span.slice(), head, pl.ds(0, width)), span.inside(), columns)

    def query(self, batch, span, head) -> Array:
        return self.rows(self.refs.query, self.shapes.query, batch, span, head)

    def key(self, batch, span, head) -> Array:
        return self.rows(self.refs.key, self.shapes.key, batch, span, head)

    def value(self, batch, span, head) -> Array:
        return self.rows(self.refs.value, self.shapes.value, batch, span, head)

    def vector(self, ref, batch, head, span: Span) -> Array:
        """[size] of a [B N T] array."""
        return _load(ref, (batch, head, span.slice()), span.inside())

    def tile(self, ref, batch, head, rows: Span, columns: Span) -> Array:
        """The block of a broadcast [B N T S] array: 2-D, each axis whole or 1."""
        B, N, T, S = ref.shape
        at = (batch if B > 1 else 0, head if N > 1 else 0)
        spans = [span if size > 1 else None for span, size in ((rows, T), (columns, S))]
        at += tuple(0 if span is None else span.slice() for span in spans)
        part = _load(ref, at, *(span.inside() for span in spans if span is not None))
        return part.reshape([1 if span is None else span.size for span in spans])

    def length(self, which: str, batch: Array, span: int) -> Array | int:
        """The real queries or keys of a batch element."""
        lengths = getattr(self.refs, which)
        return span if lengths is None else jnp.clip(lengths[batch], 0, span)

    def logits(self, query: Array, key: Array, batch, head, rows: Span, columns: Span) -> Array:
        """In base 2: log2(e) (query key^T scale + bias), -inf where a query may not look."""
        refs = self.refs
        logits = _dot(query, key, trans_b=True) * (self.options.scale * LOG2E)
        if refs.bias is not None:
            logits = logits + self.tile(refs.bias, batch, head, rows, columns).astype(self.dtype) * LOG2E
        row, column = rows.at()[:, None], columns.at()[None, :]
        terms = [in_band(row, column, self.options)]
        inside = columns.inside()
        terms.append(None if inside is None else inside[None, :])
        if refs.query_lengths is not None:
            terms.append(row < refs.query_lengths[batch])
        if refs.key_lengths is not None:
            terms.append(column < refs.key_lengths[batch])
        if refs.mask is not None:
            terms.append(self.tile(refs.mask, batch, head, rows, columns))
        for term in terms:
            if term is not None:
                logits = jnp.where(jnp.broadcast_to(term, logits.shape), logits, -jnp.inf)
        return logits

    def key_blocks(self, batch: Array, rows: Span, size: int) -> tuple[Array | int, Array | int]:
        """The blocks of `size` keys, from first to before last, that some of the rows may see."""
        left, right = self.options.left, self.options.right
        last = self.length("key_lengths", batch, self.keys)
        if right is not None:
            last = jnp.minimum(last, rows.start + (rows.size + right))
        if self.refs.query_lengths is not None:
            last = jnp.where(rows.start < self.refs.query_lengths[batch], last, 0)
        first = 0 if left is None else jnp.maximum(rows.start - left, 0)
        return _blocks(first, last, size)

    def query_blocks(self, batch: Array, columns: Span, size: int) -> tuple[Array | int, Array | int]:
        """The blocks of `size` queries, from first to before last, that may see some of the keys."""
        left, right = self.options.left, self.options.right
        last = self.length("query_lengths", batch, self.queries)
        if left is not None:
            last = jnp.minimum(last, columns.start + (columns.size + left))
        if self.refs.key_lengths is not None:
            last = jnp.where(columns.start < self.refs.key_lengths[batch], last, 0)
        first = 0 if right is None else jnp.maximum(columns.start - right, 0)
        return _blocks(first, last, size)


def _blocks(first: Array | int, last: Array | int, size: int) -> tuple[Array | int, Array | int]:
    if isinstance(first, int) and isinstance(last, int):
        return first // size, -(-last // size)
    first, last = (jnp.asarray(x, jnp.int32) for x in (first, last))
    return lax.div(first, jnp.int32(size)), lax.div(last + (size - 1), jnp.int32(size))


def _loop(bounds: tuple[Array | int, Array | int], step, carry):
    """step(int32 index, carry) from the first bound to before the second."""
    return lax.fori_loop(*bounds, lambda index, state: step(jnp.asarray(index, jnp.int32), state), carry)


def _forward_kernel(inputs: Arrays, output, lse, *, shapes: Arrays, options: Options, blocks: Blocks):
    """Algorithm 1. Grid: (blocks of queries, heads, batch)."""
    at = _Refs(inputs, shapes, options)
    block, head, batch = (pl.program_id(axis) for axis in range(3))
    group = shapes.query[2] // shapes.key[2]
    key_head = lax.div(head, jnp.int32(group))
    rows = Span(block * blocks.query, blocks.query, at.queries)
    query = at.query(batch, rows, head)

    def step(index, carry):
        context, largest, total = carry
        columns = Span(index * blocks.key, blocks.key, at.keys)
        logits = at.logits(query, at.key(batch, columns, key_head), batch, head, rows, columns)
        higher = jnp.maximum(largest, jnp.max(logits, axis=1))
        shift = jnp.where(higher == -jnp.inf, jnp.zeros_like(higher), higher)
        exponentials = jnp.exp2(logits - shift[:, None])
        shrink = jnp.exp2(largest - shift)
        value = at.value(batch, columns, key_head)
        context = context * shrink[:, None] + _dot(exponentials.astype(value.dtype), value)
        return context, higher, total * shrink + jnp.sum(exponentials, axis=1)

    width = inputs.value.shape[3]
    start = (
        jnp.zeros((blocks.query, width), at.dtype),
        jnp.full((blocks.query,), -jnp.inf, at.dtype),
        jnp.zeros((blocks.query,), at.dtype),
    )
    context, largest, total = _loop(at.key_blocks(batch, rows, blocks.key), step, start)
    empty = total == 0
    total = jnp.where(empty, jnp.ones_like(total), total)
    _store_rows(output, shapes.value[3], batch, rows, head, context / total[:, None])
    result = jnp.where(empty, jnp.zeros_like(total), largest + jnp.log2(total))
    triton.store(lse.at[batch, head, rows.slice()], result, mask=rows.inside())


def _store_rows(ref, real_width: int, batch, span: Span, head, rows: Array) -> None:
    """Writes [size, padded width] into a [B T N H] array."""
    mask = jnp.ones(rows.shape, bool)
    if span.inside() is not None:
        mask = mask & span.inside()[:, None]
    if ref.shape[3] != real_width:
        mask = mask & (lax.iota(jnp.int32, ref.shape[3]) < real_width)[None, :]
    whole = span.inside() is None and ref.shape[3] == real_width
    at = ref.at[batch, span.slice(), head, pl.ds(0, ref.shape[3])]
    triton.store(at, rows.astype(ref.dtype), mask=None if whole else mask)


class _Saved(NamedTuple):
    """What the gradient starts from: the output's cotangent [B T N Hv], log-sum-exp and rowsum(dO * O) [B N T]."""

    cotangent: Array
    lse: Array
    delta: Array


def _probabilities(at: _Refs, saved: _Saved, query, key, value, out, batch, head, rows: Span, columns: Span):
    """(P, dS) of a block; the gradient of the logits in base e."""
    logits = at.logits(query, key, batch, head, rows, columns)
    probabilities = jnp.exp2(logits - at.vector(saved.lse, batch, head, rows)[:, None])
    towards = _dot(out, value, trans_b=True)
    return probabilities, probabilities * (towards - at.vector(saved.delta, batch, head, rows)[:, None])


def _cotangent(at: _Refs, saved: _Saved, batch, rows: Span, head) -> Array:
    return at.rows(saved.cotangent, (*at.shapes.query[:3], at.shapes.value[3]), batch, rows, head)


def _query_kernel(inputs: Arrays, saved: _Saved, gradient, *, shapes: Arrays, options: Options, blocks: Blocks):
    """dQ. Grid: (blocks of queries, heads, batch)."""
    at = _Refs(inputs, shapes, options)
    block, head, batch = (pl.program_id(axis) for axis in range(3))
    key_head = lax.div(head, jnp.int32(shapes.query[2] // shapes.key[2]))
    rows = Span(block * blocks.own, blocks.own, at.queries)
    query, out = at.query(batch, rows, head), _cotangent(at, saved, batch, rows, head)

    def step(index, total):
        columns = Span(index * blocks.step, blocks.step, at.keys)
        key, value = at.key(batch, columns, key_head), at.value(batch, columns, key_head)
        _, slope = _probabilities(at, saved, query, key, value, out, batch, head, rows, columns)
        return total + _dot(slope.astype(key.dtype), key)

    total = _loop(at.key_blocks(batch, rows, blocks.step), step, jnp.zeros(query.shape, at.dtype))
    _store_rows(gradient, shapes.query[3], batch, rows, head, total * options.scale)


def _key_kernel(inputs: Arrays, saved: _Saved, keys, values, *, shapes: Arrays, options: Options, blocks: Blocks):
    """dK and dV. Grid: (blocks of keys, key heads, batch)."""
    at = _Refs(inputs, shapes, options)
    block, key_head, batch = (pl.program_id(axis) for axis in range(3))
    group = shapes.query[2] // shapes.key[2]
    columns = Span(block * blocks.own, blocks.own, at.keys)
    key, value = at.key(batch, columns, key_head), at.value(batch, columns, key_head)

    def over_heads(index, totals):
        head = key_head * group + index

        def step(index, totals):
            rows = Span(index * blocks.step, blocks.step, at.queries)
            query, out = at.query(batch, rows, head), _cotangent(at, saved, batch, rows, head)
            weights, slope = _probabilities(at, saved, query, key, value, out, batch, head, rows, columns)
            towards_key = _dot(slope.astype(query.dtype), query, trans_a=True)
            return totals[0] + towards_key, totals[1] + _dot(weights.astype(out.dtype), out, trans_a=True)

        return _loop(at.query_blocks(batch, columns, blocks.step), step, totals)

    totals = jnp.zeros(key.shape, at.dtype), jnp.zeros(value.shape, at.dtype)
    totals = over_heads(jnp.int32(0), totals) if group == 1 else _loop((0, group), over_heads, totals)
    _store_rows(keys, shapes.key[3], batch, columns, key_head, totals[0] * options.scale)
    _store_rows(values, shapes.value[3], batch, columns, key_head, totals[1])


def _bias_kernel(inputs: Arrays, saved: _Saved, gradient, *, shapes: Arrays, options: Options, blocks: Blocks):
    """dbias, summed over the batch elements and heads that share it, and over the block along an axis of 1.

    Grid: (blocks of queries, blocks of keys, heads of the bias, batch of the bias).
    """
    at = _Refs(inputs, shapes, options)
    row_block, column_block, bias_head, bias_batch = (pl.program_id(axis) for axis in range(4))
    rows = Span(row_block * blocks.own, blocks.own, at.queries)
    columns = Span(column_block * blocks.step, blocks.step, at.keys)
    (B, _, N, _), K = shapes.query, shapes.key[2]
    heads = N if shapes.bias[1] == 1 else 1

    def step(index, total):
        batch = bias_batch if shapes.bias[0] > 1 else lax.div(index, jnp.int32(heads))
        head = bias_head if heads == 1 else lax.rem(index, jnp.int32(heads))
        key_head = lax.div(head, jnp.int32(N // K))
        query, out = at.query(batch, rows, head), _cotangent(at, saved, batch, rows, head)
        key, value = at.key(batch, columns, key_head), at.value(batch, columns, key_head)
        return total + _probabilities(at, saved, query, key, value, out, batch, head, rows, columns)[1]

    count = heads * (B if shapes.bias[0] == 1 else 1)
    seen = in_band_blocks(rows, columns, options)
    count = count if seen is None else jnp.where(seen, jnp.int32(count), jnp.int32(0))
    total = _loop((0 if isinstance(count, int) else jnp.int32(0), count), step, jnp.zeros((rows.size, columns.size), at.dtype))
    place, masks = [], []
    for axis, (span, block) in enumerate(((rows, row_block), (columns, column_block))):
        if shapes.bias[2 + axis] == 1:
            total = jnp.sum(total, axis=len(place) and total.ndim - 1)
        place.append(block if shapes.bias[2 + axis] == 1 else span.slice())
        masks.append(None if shapes.bias[2 + axis] == 1 else span.inside())
    del masks
    triton.store(gradient.at[(bias_batch, bias_head, *place)], total)
