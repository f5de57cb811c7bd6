"""FlashAttention-2, Dao 2023 (arXiv 2307.08691), algorithms 1 and 2: softmax(Q K^T scale + bias) V in tiles.

The kernels are written in Pallas for NVIDIA GPUs (with its Triton lowering). On other platforms they run interpreted,
for tests. A program owns a block of queries and loops over blocks of keys with a running maximum and sum. It stores the
output, and the maximum and the total of each row (`blockwise` explains why it does not store their log-sum-exp). The
gradient recomputes the probabilities P from these:

    dV = P^T dO,  dS = P * (dO V^T - rowsum(dO * O)),  dQ = dS K scale,  dK = dS^T Q scale,  dbias = sum of dS

There is one kernel for dQ (a program owns queries), one for dK and dV (a program owns the keys of one key head and
loops over its query heads), and one for dbias if there is a bias. A program of the last kernel owns a block of the bias
and loops over the batch elements and heads that share it. Sums therefore need no atomic operations, and results are
bitwise reproducible. Blocks that the band, the lengths or the segments hide are never read. Any length is supported:
loads beyond the end are masked.

Products are computed in the dtype of the inputs (float32 follows `jax_default_matmul_precision`, which is TF32 on GPUs
that have it), sums and softmax in float32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array

from attention_research.kernels.attention.arguments import Arrays, Options, exp_below
from attention_research.kernels.attention.loop_carries import vary_together
from attention_research.kernels.attention.pallas_kernels import (
    Blocks,
    Saved,
    bias_kernel,
    forward_kernel,
    key_kernel,
    query_kernel,
)
from attention_research.kernels.attention.refusals import GPUS, refuse
from attention_research.kernels.platforms import home_platform
from attention_research.kernels.precision import accumulator

#: The minimum side of a tile for tensor cores.
SMALLEST = 16


def default_blocks(dtype: jnp.dtype, width: int, *, tiled: bool = False) -> Blocks:
    """Default block sizes, from the bytes of a row of a tile and from whether there are tiles of a bias or mask.

    Those of rows up to 256 bytes (heads of up to 128 in bfloat16) are the fastest in `benchmarks.blocks` on an H100 of
    those that need at most 100 KB of shared memory, which smaller GPUs have. Those of wider rows are not measured.
    """
    row = jnp.dtype(dtype).itemsize * width
    if row <= 128:
        return Blocks(128, 64, 64, 64) if tiled else Blocks(64, 128, 128, 64, backward_stages=3)
    if row <= 256:
        return Blocks(64, 32, 64, 32) if tiled else Blocks(128, 64, 64, 64)
    return Blocks(64, 32, 32, 32) if row <= 512 else Blocks(32, 16, 16, 16)


def attend(arrays: Arrays, options: Options, blocks: Blocks | None = None, *, platform: str | None = None) -> Any:
    """The same function as `reference.attend`, [B T N Hv]. Memory is linear in the lengths, except for a bias.

    Kernels are interpreted if `platform` is not a GPU (None: the home platform). Raises ValueError if `refusals.pallas`
    returns a reason.
    """
    platform = platform or home_platform()
    refuse("pallas", arrays, options, platform)
    (_, T, _, H), S = arrays.query.shape, arrays.key.shape[1]
    if blocks is None:
        tiled = arrays.bias is not None or arrays.mask is not None
        blocks = default_blocks(arrays.query.dtype, _power_of_two(max(H, arrays.value.shape[3])), tiled=tiled)
    longest = _power_of_two(max(T, S))
    blocks = Blocks._make([*(min(size, longest) for size in blocks[:4]), *blocks[4:]])
    return _attend(vary_together(arrays), options, blocks, platform not in GPUS)


def _power_of_two(size: int) -> int:
    return max(SMALLEST, 1 << (size - 1).bit_length())


def visible_ranges(arrays: Arrays, options: Options, size: int, step: int, *, of_keys: bool = False) -> Array | None:
    """The range [first, end) of blocks of `step` keys that are visible to each block of `size` queries, [B blocks 2].

    With `of_keys`, the range of blocks of queries to which each block of keys is visible. None means all blocks.
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
    if row_segments is not None and column_segments is not None:
        blocks = jnp.pad(row_segments, ((0, 0), (0, count * size - rows))).reshape(B, count, size)
        most = jnp.iinfo(blocks.dtype).max
        least = jnp.min(jnp.where(blocks == 0, most, blocks), axis=-1, keepdims=True)
        others, number = column_segments[:, None, :], jnp.arange(columns, dtype=jnp.int32)
        seen = (others != 0) & (others >= least) & (others <= jnp.max(blocks, axis=-1, keepdims=True))
        low = jnp.maximum(low, jnp.min(jnp.where(seen, number, columns), axis=-1))
        high = jnp.minimum(high, jnp.max(jnp.where(seen, number + 1, 0), axis=-1))
    return jnp.stack([low // step, (high + (step - 1)) // step], axis=-1).astype(jnp.int32)


def _whole(array, *, wide: bool = False) -> pl.BlockSpec:
    """The spec of a whole array in memory. With `wide`, the last axis is a head width, padded to a power of 2."""
    shape = (*array.shape[:-1], _power_of_two(array.shape[-1])) if wide else array.shape
    return pl.BlockSpec(shape, lambda *_: (0,) * len(shape))


def _specs(arrays: Arrays) -> Arrays:
    return jax.tree.map(_whole, arrays)._replace(
        query=_whole(arrays.query, wide=True), key=_whole(arrays.key, wide=True), value=_whole(arrays.value, wide=True)
    )


def _cost(kernel, arrays: Arrays, options: Options) -> pl.CostEstimate:
    """The cost of the pairs that the band leaves visible: products and one exponential each. Lengths are unknown."""
    (B, T, N, H), S, width = arrays.query.shape, arrays.key.shape[1], arrays.value.shape[3]
    rows = np.arange(T)
    first = np.zeros(T, int) if options.left is None else np.maximum(rows - options.left, 0)
    last = np.full(T, S) if options.right is None else np.minimum(rows + (options.right + 1), S)
    pairs = B * N * int(np.maximum(last - first, 0).sum())
    more = {query_kernel: H, key_kernel: H + width}.get(kernel, 0)
    size = sum(array.size * array.dtype.itemsize for array in jax.tree.leaves(arrays))
    return pl.CostEstimate(flops=2 * pairs * (H + width + more), transcendentals=pairs, bytes_accessed=size)


class _Output(NamedTuple):
    """An output array of a kernel. With `wide`, its last axis is a head width, which is padded."""

    shape: tuple[int, ...]
    dtype: jnp.dtype
    wide: bool = True


def _call(
    kernel,
    given: tuple,
    grid: tuple[int, ...],
    outputs: list[_Output],
    options: Options,
    blocks: Blocks,
    interpret: bool,
):
    """Runs a kernel on (arrays, ranges, arrays saved by the forward pass)."""
    arrays, ranges, *saved = given
    specs = [_specs(arrays), None if ranges is None else _whole(ranges)]
    specs += [jax.tree.map(_whole, one)._replace(cotangent=_whole(one.cotangent, wide=True)) for one in saved]
    varying = jax.typeof(arrays.query).manual_axis_type
    warps, stages = blocks[4:6] if kernel is forward_kernel else blocks[6:]
    return pl.pallas_call(
        functools.partial(kernel, shapes=jax.tree.map(jnp.shape, arrays), options=options, blocks=blocks),
        grid=grid,
        in_specs=specs,
        out_specs=[_whole(one, wide=one.wide) for one in outputs],
        out_shape=[jax.ShapeDtypeStruct(one.shape, one.dtype, manual_axis_type=varying) for one in outputs],
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=stages),
        cost_estimate=_cost(kernel, arrays, options),
        interpret=interpret,
        name="attention_" + kernel.__name__,
    )(*given)


def _run(arrays: Arrays, options: Options, blocks: Blocks, interpret: bool) -> tuple[Array, Array, Array]:
    """Returns (output [B T N Hv], largest logit [B N T], total [B N T])."""
    (B, T, N, _), width = arrays.query.shape, arrays.value.shape[3]
    row = _Output((B, N, T), accumulator(arrays.query.dtype), wide=False)
    outputs = [_Output((B, T, N, width), arrays.query.dtype), row, row]
    ranges = visible_ranges(arrays, options, blocks.query, blocks.key)
    grid = (pl.cdiv(T, blocks.query), N, B)
    output, top, total = _call(forward_kernel, (arrays, ranges), grid, outputs, options, blocks, interpret)
    return output, top, total


def _result(options: Options, output: Array, top: Array, total: Array) -> Any:
    """The output, or (output, log-sum-exp [B T N])."""
    if not options.residual:
        return output
    log = top + jnp.log(jnp.where(total == 0, jnp.ones_like(total), total))
    return output, jnp.where(total == 0, -jnp.inf, log).swapaxes(1, 2)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def _attend(arrays: Arrays, options: Options, blocks: Blocks, interpret: bool) -> Any:
    return _result(options, *_run(arrays, options, blocks, interpret))


def _attend_forward(arrays: Arrays, options: Options, blocks: Blocks, interpret: bool):
    rows = _run(arrays, options, blocks, interpret)
    return _result(options, *rows), (arrays, *rows)


def _attend_backward(options: Options, blocks: Blocks, interpret: bool, residuals, cotangent) -> tuple[Arrays]:
    arrays, output, top, total = residuals
    cotangent, of_log = cotangent if options.residual else (cotangent, None)
    (B, T, N, _), (S, K) = arrays.query.shape, arrays.key.shape[1:3]
    delta = jnp.sum(cotangent.astype(top.dtype) * output.astype(top.dtype), axis=-1).swapaxes(1, 2)
    if of_log is not None:
        of_log = of_log.swapaxes(1, 2).astype(delta.dtype)
        # The log-sum-exp of a row without a visible key is constant.
        delta = delta - jnp.where(total == 0, jnp.zeros_like(of_log), of_log)
    saved = Saved(cotangent, top, total, delta)
    of_queries = visible_ranges(arrays, options, blocks.own, blocks.step)
    of_keys = visible_ranges(arrays, options, blocks.own, blocks.step, of_keys=True)
    run = functools.partial(_call, options=options, blocks=blocks, interpret=interpret)
    query, key, value = (_Output(array.shape, array.dtype) for array in arrays[:3])
    (query,) = run(query_kernel, (arrays, of_queries, saved), (pl.cdiv(T, blocks.own), N, B), [query])
    key, value = run(key_kernel, (arrays, of_keys, saved), (pl.cdiv(S, blocks.own), K, B), [key, value])
    gradients: dict[str, Any] = dict.fromkeys(Arrays._fields) | {"query": query, "key": key, "value": value}
    if arrays.bias is not None:
        gradients["bias"] = _bias_gradient(arrays, run, blocks, of_queries, saved)
    if arrays.sink is not None:
        gradients["sink"] = _sink_gradient(arrays.sink, saved)
    return (Arrays(**gradients),)


def _sink_gradient(sink: Array, saved: Saved) -> Array:
    """The gradient of a sink, which is a key with the value 0: minus its weight times delta, summed."""
    total = jnp.where(saved.total == 0, jnp.ones_like(saved.total), saved.total)
    share = exp_below(sink.astype(total.dtype)[:, None], saved.top) / total
    gradient = -jnp.sum(share * saved.delta, axis=(0, 2))
    return (gradient if sink.shape[0] > 1 else gradient.sum(keepdims=True)).astype(sink.dtype)


def _bias_gradient(
    arrays: Arrays, run: Callable[..., Any], blocks: Blocks, ranges: Array | None, saved: Saved
) -> Array:
    """The gradient of the bias. Along broadcast axes, each program writes a partial sum; they are added here."""
    assert arrays.bias is not None
    B, N, *lengths = arrays.bias.shape
    counts = pl.cdiv(arrays.query.shape[1], blocks.own), pl.cdiv(arrays.key.shape[1], blocks.step)
    if ranges is not None and B == 1:  # the union over batch elements
        ranges = jnp.stack([jnp.min(ranges[..., 0], axis=0), jnp.max(ranges[..., 1], axis=0)], axis=-1)[None]
    partial = [count if length == 1 else length for count, length in zip(counts, lengths, strict=True)]
    output = _Output((B, N, *partial), saved.top.dtype, wide=False)
    (gradient,) = run(bias_kernel, (arrays, ranges, saved), (*counts, N, B), [output])
    for axis, length in ((2, lengths[0]), (3, lengths[1])):
        if length == 1:
            gradient = jnp.sum(gradient, axis=axis, keepdims=True)
    return gradient.astype(arrays.bias.dtype)


_attend.defvjp(_attend_forward, _attend_backward)
