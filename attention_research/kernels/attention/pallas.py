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
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array

from attention_research.kernels.attention.arguments import Arrays, Options, in_band, same_segment
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
    warps: int = 8


def default_blocks(dtype: jnp.dtype, width: int, *, tiled: bool = False) -> Blocks:
    """By the bytes of a row of a tile, and whether tiles of a bias or a mask are kept too.

    A choice from the published kernels and from what fits into shared memory, not a measurement.
    """
    row = jnp.dtype(dtype).itemsize * width
    if row <= 256:
        return Blocks(64 if tiled else 128, 64, 64, 64 if row <= 128 else 32)
    return Blocks(64, 32, 32, 32) if row <= 512 else Blocks(32, 16, 16, 16)


def varies(arrays: Arrays) -> bool:
    """Whether shard_map keeps account of the mesh axes over which some of the arrays vary."""
    return any(jax.typeof(array).manual_axis_type.varying for array in jax.tree.leaves(arrays))


def refusal(arrays: Arrays, options: Options) -> str | None:
    """Why these kernels cannot honour the arguments; None where they can."""
    backend = jax.default_backend()
    if backend not in ("gpu", "cpu"):
        return f"these Pallas kernels need a GPU (a CPU interprets them); the default backend is {backend}"
    if backend == "gpu" and arrays.query.dtype not in (jnp.bfloat16, jnp.float16, jnp.float32):
        return f"dtype of query: expected bfloat16, float16 or float32 on a GPU, got {arrays.query.dtype}"
    if backend == "cpu" and varies(arrays):
        return "query: inside shard_map kernels are interpreted with check_vma=False only"
    for name in ("distance_bias", "key_table", "value_table"):
        if getattr(arrays, name) is not None:
            return f"{name}: these kernels have no gradient for terms by distance; blockwise has"
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
        tiled = arrays.bias is not None or arrays.mask is not None
        blocks = default_blocks(arrays.query.dtype, _power_of_two(max(H, arrays.value.shape[3])), tiled=tiled)
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


def _mask(shape: tuple[int, ...], inside: tuple[Array | None, ...]) -> Array | None:
    """One vector an axis (None: all of it) as a mask of `shape`; None where all is inside."""
    mask = None
    for axis, part in enumerate(inside):
        if part is not None:
            part = part.reshape([-1 if n == axis else 1 for n in range(len(shape))])
            mask = part if mask is None else mask & part
    return None if mask is None else jnp.broadcast_to(mask, shape)


def _load(ref, at: tuple, shape: tuple[int, ...], *inside: Array | None) -> Array:
    """ref[at] of this shape, 0 where `inside` (one vector an axis) says that nothing is there."""
    mask = _mask(shape, inside)
    if mask is None:
        return ref[at]
    return triton.load(ref.at[at], mask=mask, other=jnp.zeros((), ref.dtype))


def _store(ref, at: tuple, value: Array, *inside: Array | None) -> None:
    triton.store(ref.at[at], value.astype(ref.dtype), mask=_mask(value.shape, inside))


def _dot(a: Array, b: Array, **transposed: bool) -> Array:
    return triton.dot(a, b, **transposed)


def _all(ref) -> pl.Slice:
    """The last axis; with a start of int32, also under x64."""
    return pl.ds(jnp.zeros((), jnp.int32), ref.shape[-1])


def _columns(ref, shape: tuple[int, ...]) -> Array | None:
    """Which columns of a padded ref exist; None where all do."""
    return None if ref.shape[-1] == shape[-1] else lax.iota(jnp.int32, ref.shape[-1]) < shape[-1]


class _Refs:
    """What a kernel reads: the arrays in memory, and the sizes that their refs do not show (widths are padded)."""

    def __init__(self, refs: Arrays, shapes: Arrays, options: Options):
        self.refs, self.shapes, self.options = refs, shapes, options
        self.dtype = accumulator(refs.query.dtype)
        self.queries, self.keys = shapes.query[1], shapes.key[1]

    def rows(self, ref, shape: tuple[int, ...], batch: Array, span: Span, head: Array) -> Array:
        """[size, padded width] of a [B T N H] array."""
        at = (batch, span.slice(), head, _all(ref))
        return _load(ref, at, (span.size, ref.shape[3]), span.inside(), _columns(ref, shape))

    def query(self, batch, span, head) -> Array:
        return self.rows(self.refs.query, self.shapes.query, batch, span, head)

    def key(self, batch, span, head) -> Array:
        return self.rows(self.refs.key, self.shapes.key, batch, span, head)

    def value(self, batch, span, head) -> Array:
        return self.rows(self.refs.value, self.shapes.value, batch, span, head)

    def vector(self, ref, batch, head, span: Span) -> Array:
        """[size] of a [B N T] array."""
        return _load(ref, (batch, head, span.slice()), (span.size,), span.inside())

    def ids(self, ref, batch, span: Span) -> Array:
        """[size] of a [B T] array."""
        return _load(ref, (batch, span.slice()), (span.size,), span.inside())

    def tile(self, ref, batch, head, rows: Span, columns: Span) -> Array:
        """The block of a broadcast [B N T S] array: 2-D, each axis whole or 1."""
        B, N, T, S = ref.shape
        zero = jnp.zeros((), jnp.int32)
        at = (batch if B > 1 else zero, head if N > 1 else zero)
        spans = [span if size > 1 else None for span, size in ((rows, T), (columns, S))]
        at += tuple(zero if span is None else span.slice() for span in spans)
        kept = [span for span in spans if span is not None]
        part = _load(ref, at, tuple(span.size for span in kept), *(span.inside() for span in kept))
        return part.reshape([1 if span is None else span.size for span in spans])

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
        if refs.query_segments is not None:
            ids = (self.ids(refs.query_segments, batch, rows)[:, None], self.ids(refs.key_segments, batch, columns))
            terms.append(same_segment(ids[0], ids[1][None, :]))
        if refs.mask is not None:
            terms.append(self.tile(refs.mask, batch, head, rows, columns))
        for term in terms:
            if term is not None:
                logits = jnp.where(jnp.broadcast_to(term, logits.shape), logits, -jnp.inf)
        return logits


def _ranges(arrays: Arrays, options: Options, size: int, step: int, *, of_keys: bool = False) -> Array | None:
    """[B blocks 2]: the blocks of `step` keys, from first to before last, that a block of `size` queries may see.

    With `of_keys` the blocks of queries that may see a block of keys. None: every block sees every other.
    """
    if options.left is None and options.right is None and arrays.key_lengths is None:
        if arrays.query_lengths is None and arrays.query_segments is None:
            return None
    sides = [(arrays.query.shape[1], arrays.query_lengths, arrays.query_segments)]
    sides.append((arrays.key.shape[1], arrays.key_lengths, arrays.key_segments))
    left, right = options.left, options.right
    if of_keys:
        sides, (left, right) = sides[::-1], (right, left)
    (rows, row_lengths, row_segments), (columns, column_lengths, column_segments) = sides
    B, count = arrays.query.shape[0], pl.cdiv(rows, size)
    first = jnp.arange(count, dtype=jnp.int32) * size
    low, high = jnp.zeros((B, count), jnp.int32), jnp.full((B, count), columns, jnp.int32)
    if left is not None:
        low = jnp.maximum(low, first - left)
    if right is not None:
        high = jnp.minimum(high, first + (size + right))
    if column_lengths is not None:
        high = jnp.minimum(high, column_lengths[:, None])
    if row_lengths is not None:
        high = jnp.where(first < row_lengths[:, None], high, 0)
    if row_segments is not None:
        blocks = jnp.pad(row_segments, ((0, 0), (0, count * size - rows))).reshape(B, count, size)
        most = jnp.iinfo(blocks.dtype).max
        least = jnp.min(jnp.where(blocks == 0, most, blocks), axis=-1, keepdims=True)
        others, number = column_segments[:, None, :], jnp.arange(columns, dtype=jnp.int32)
        seen = (others != 0) & (others >= least) & (others <= jnp.max(blocks, axis=-1, keepdims=True))
        low = jnp.maximum(low, jnp.min(jnp.where(seen, number, columns), axis=-1))
        high = jnp.minimum(high, jnp.max(jnp.where(seen, number + 1, 0), axis=-1))
    return jnp.stack([low // step, (high + (step - 1)) // step], axis=-1).astype(jnp.int32)


def _bounds(ranges, batch: Array, block: Array, total: int) -> tuple[Array | int, Array | int]:
    """From first to before last, of `total` blocks."""
    return (0, total) if ranges is None else (ranges[batch, block, 0], ranges[batch, block, 1])


def _loop(bounds: tuple[Array | int, Array | int], step, carry):
    """step(int32 index, carry) from the first bound to before the second."""
    return lax.fori_loop(*bounds, lambda index, state: step(jnp.asarray(index, jnp.int32), state), carry)


def _forward_kernel(inputs: Arrays, ranges, output, lse, *, shapes: Arrays, options: Options, blocks: Blocks):
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
    context, largest, total = _loop(_bounds(ranges, batch, block, pl.cdiv(at.keys, blocks.key)), step, start)
    empty = total == 0
    total = jnp.where(empty, jnp.ones_like(total), total)
    _store_rows(output, shapes.value, batch, rows, head, context / total[:, None])
    result = jnp.where(empty, jnp.zeros_like(total), largest + jnp.log2(total))
    _store(lse, (batch, head, rows.slice()), result, rows.inside())


def _store_rows(ref, shape: tuple[int, ...], batch, span: Span, head, rows: Array) -> None:
    """Writes [size, padded width] into a [B T N H] array of this real shape."""
    _store(ref, (batch, span.slice(), head, _all(ref)), rows, span.inside(), _columns(ref, shape))


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
    return at.rows(saved.cotangent, at.shapes.value, batch, rows, head)


def _query_kernel(inputs: Arrays, ranges, saved: _Saved, gradient, *, shapes: Arrays, options: Options, blocks: Blocks):
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

    bounds = _bounds(ranges, batch, block, pl.cdiv(at.keys, blocks.step))
    total = _loop(bounds, step, jnp.zeros(query.shape, at.dtype))
    _store_rows(gradient, shapes.query, batch, rows, head, total * options.scale)


def _key_kernel(
    inputs: Arrays, ranges, saved: _Saved, keys, values, *, shapes: Arrays, options: Options, blocks: Blocks
):
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

        return _loop(_bounds(ranges, batch, block, pl.cdiv(at.queries, blocks.step)), step, totals)

    totals = jnp.zeros(key.shape, at.dtype), jnp.zeros(value.shape, at.dtype)
    totals = over_heads(jnp.int32(0), totals) if group == 1 else _loop((0, group), over_heads, totals)
    _store_rows(keys, shapes.key, batch, columns, key_head, totals[0] * options.scale)
    _store_rows(values, shapes.value, batch, columns, key_head, totals[1])


def _bias_kernel(inputs: Arrays, ranges, saved: _Saved, gradient, *, shapes: Arrays, options: Options, blocks: Blocks):
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
    bounds = (0, count)
    if ranges is not None:
        first, last = ranges[bias_batch, row_block, 0], ranges[bias_batch, row_block, 1]
        seen = (first <= column_block) & (column_block < last)
        bounds = (jnp.int32(0), jnp.where(seen, jnp.int32(count), jnp.int32(0)))
    total = _loop(bounds, step, jnp.zeros((rows.size, columns.size), at.dtype))
    shared = tuple(axis for axis in (0, 1) if shapes.bias[2 + axis] == 1)
    spans = [(rows, row_block), (columns, column_block)]
    place = tuple(block if axis in shared else span.slice() for axis, (span, block) in enumerate(spans))
    inside = [span.inside() for axis, (span, _) in enumerate(spans) if axis not in shared]
    _store(gradient, (bias_batch, bias_head, *place), jnp.sum(total, axis=shared), *inside)


def _whole(array, *, wide: bool = False) -> pl.BlockSpec:
    """All of an array, in memory; a head width is read as the next power of 2."""
    shape = (*array.shape[:-1], _power_of_two(array.shape[-1])) if wide else array.shape
    return pl.BlockSpec(shape, lambda *_: (0,) * len(shape))


def _specs(arrays: Arrays) -> Arrays:
    return jax.tree.map(_whole, arrays)._replace(
        query=_whole(arrays.query, wide=True), key=_whole(arrays.key, wide=True), value=_whole(arrays.value, wide=True)
    )


def _cost(kernel, arrays: Arrays, options: Options) -> pl.CostEstimate:
    """The products of the pairs that the band leaves visible, and an exponential each; lengths are not known here."""
    (B, T, N, H), S, width = arrays.query.shape, arrays.key.shape[1], arrays.value.shape[3]
    rows = np.arange(T)
    first = np.zeros(T, int) if options.left is None else np.maximum(rows - options.left, 0)
    last = np.full(T, S) if options.right is None else np.minimum(rows + (options.right + 1), S)
    pairs = B * N * int(np.maximum(last - first, 0).sum())
    more = {_query_kernel: H, _key_kernel: H + width}.get(kernel, 0)
    size = sum(array.size * array.dtype.itemsize for array in jax.tree.leaves(arrays))
    return pl.CostEstimate(flops=2 * pairs * (H + width + more), transcendentals=pairs, bytes_accessed=size)


class _Output(NamedTuple):
    """An array that a kernel makes; `wide`: its last axis is a head width, which is padded."""

    shape: tuple[int, ...]
    dtype: jnp.dtype
    wide: bool = True


def _call(kernel, given: tuple, grid: tuple[int, ...], outputs: list[_Output], options: Options, blocks: Blocks):
    """Runs a kernel on (arrays, ranges, what the forward pass saved)."""
    arrays, ranges, *saved = given
    specs = [_specs(arrays), None if ranges is None else _whole(ranges)]
    specs += [_Saved(_whole(one.cotangent, wide=True), _whole(one.lse), _whole(one.delta)) for one in saved]
    varying = jax.typeof(arrays.query).manual_axis_type
    return pl.pallas_call(
        functools.partial(kernel, shapes=jax.tree.map(jnp.shape, arrays), options=options, blocks=blocks),
        grid=grid,
        in_specs=specs,
        out_specs=[_whole(one, wide=one.wide) for one in outputs],
        out_shape=[jax.ShapeDtypeStruct(one.shape, one.dtype, manual_axis_type=varying) for one in outputs],
        compiler_params=triton.CompilerParams(num_warps=blocks.warps, num_stages=2),
        cost_estimate=_cost(kernel, arrays, options),
        interpret=jax.default_backend() != "gpu",
        name="attention" + kernel.__name__,
    )(*given)


def _run(arrays: Arrays, options: Options, blocks: Blocks) -> tuple[Array, Array]:
    """(output [B T N Hv], log-sum-exp [B N T] in base 2)."""
    (B, T, N, _), width = arrays.query.shape, arrays.value.shape[3]
    outputs = [_Output((B, T, N, width), arrays.query.dtype)]
    outputs.append(_Output((B, N, T), accumulator(arrays.query.dtype), wide=False))
    ranges = _ranges(arrays, options, blocks.query, blocks.key)
    output, lse = _call(_forward_kernel, (arrays, ranges), (pl.cdiv(T, blocks.query), N, B), outputs, options, blocks)
    return output, lse


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _attend(arrays: Arrays, options: Options, blocks: Blocks) -> Array:
    return _run(arrays, options, blocks)[0]


def _attend_forward(arrays: Arrays, options: Options, blocks: Blocks):
    output, lse = _run(arrays, options, blocks)
    return output, (arrays, output, lse)


def _attend_backward(options: Options, blocks: Blocks, residuals, cotangent: Array) -> tuple[Arrays]:
    arrays, output, lse = residuals
    (B, T, N, _), (S, K) = arrays.query.shape, arrays.key.shape[1:3]
    delta = jnp.sum(cotangent.astype(lse.dtype) * output.astype(lse.dtype), axis=-1).swapaxes(1, 2)
    saved = _Saved(cotangent, lse, delta)
    of_queries = _ranges(arrays, options, blocks.own, blocks.step)
    of_keys = _ranges(arrays, options, blocks.own, blocks.step, of_keys=True)
    run = functools.partial(_call, options=options, blocks=blocks)
    query, key, value = (_Output(array.shape, array.dtype) for array in arrays[:3])
    (query,) = run(_query_kernel, (arrays, of_queries, saved), (pl.cdiv(T, blocks.own), N, B), [query])
    key, value = run(_key_kernel, (arrays, of_keys, saved), (pl.cdiv(S, blocks.own), K, B), [key, value])
    gradients = dict.fromkeys(Arrays._fields) | {"query": query, "key": key, "value": value}
    if arrays.bias is not None:
        gradients["bias"] = _bias_gradient(arrays, options, blocks, of_queries, saved)
    return (Arrays(**gradients),)


def _bias_gradient(arrays: Arrays, options: Options, blocks: Blocks, ranges: Array | None, saved: _Saved) -> Array:
    """A program writes one sum where the bias has an axis of 1; they are added up here."""
    B, N, *lengths = arrays.bias.shape
    counts = pl.cdiv(arrays.query.shape[1], blocks.own), pl.cdiv(arrays.key.shape[1], blocks.step)
    if ranges is not None and B == 1:  # what any batch element sees
        ranges = jnp.stack([jnp.min(ranges[..., 0], axis=0), jnp.max(ranges[..., 1], axis=0)], axis=-1)[None]
    partial = [count if length == 1 else length for count, length in zip(counts, lengths, strict=True)]
    output = _Output((B, N, *partial), saved.lse.dtype, wide=False)
    (gradient,) = _call(_bias_kernel, (arrays, ranges, saved), (*counts, N, B), [output], options, blocks)
    for axis, length in ((2, lengths[0]), (3, lengths[1])):
        if length == 1:
            gradient = jnp.sum(gradient, axis=axis, keepdims=True)
    return gradient.astype(arrays.bias.dtype)


_attend.defvjp(_attend_forward, _attend_backward)


def _vary_together(arrays: Arrays) -> Arrays:
    """The same values, each varying over all mesh axes that any of them varies over (as in `blockwise`)."""
    never = jnp.zeros((), bool)
    for array in jax.tree.leaves(arrays):
        never = never & array[(0,) * array.ndim].astype(bool)
    return jax.tree.map(lambda array: jnp.where(never, jnp.zeros_like(array), array), arrays)
