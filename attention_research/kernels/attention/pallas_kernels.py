"""The kernels of `pallas`: the computation of one program of each grid.

A kernel takes `inputs`, the arrays in memory (with head widths padded to a power of 2), `ranges`, the blocks to loop
over (see `pallas.visible_ranges`), and `shapes`, the shapes without padding.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jaxtyping import Array

from attention_research.kernels.attention.arguments import Arrays, Options
from attention_research.kernels.attention.tiles import Refs, Shapes, Span, dot, exp_below, store, store_rows


class Blocks(NamedTuple):
    """Block sizes.

    In the forward pass, a program owns `query` rows and reads `key` keys at a time. In the backward pass, it owns `own`
    rows (or keys) and reads `step` keys (or rows) at a time. A program has `warps` groups of 32 threads, and its loop
    loads the blocks of `stages` iterations ahead.
    """

    query: int
    key: int
    own: int
    step: int
    warps: int = 4
    stages: int = 2
    backward_warps: int = 4
    backward_stages: int = 2


def _bounds(ranges, batch: Array, block: Array, total: int) -> tuple[Array | int, Array | int]:
    """The range [first, end) of the blocks to loop over, of `total` blocks."""
    return (0, total) if ranges is None else (ranges[batch, block, 0], ranges[batch, block, 1])


def _loop(bounds: tuple[Array | int, Array | int], step, carry):
    """Runs step(int32 index, carry) for the indices from the first bound up to, but excluding, the second."""
    return lax.fori_loop(*bounds, lambda index, state: step(jnp.asarray(index, jnp.int32), state), carry)


def forward_kernel(inputs: Arrays, ranges, output, tops, totals, *, shapes: Shapes, options: Options, blocks: Blocks):
    """Algorithm 1. Grid: (blocks of queries, heads, batch)."""
    at = Refs(inputs, shapes, options)
    block, head, batch = (pl.program_id(axis) for axis in range(3))
    group = shapes.query[2] // shapes.key[2]
    key_head = lax.div(head, jnp.int32(group))
    rows = Span(block * blocks.query, blocks.query, at.queries)
    query = at.query(batch, rows, head)

    def step(index, carry):
        context, largest, total = carry
        columns = Span(index * blocks.key, blocks.key, at.keys)
        logits, _ = at.logits(query, at.key(batch, columns, key_head), batch, head, rows, columns)
        higher = jnp.maximum(largest, jnp.max(logits, axis=1))
        shift = jnp.where(higher == -jnp.inf, jnp.zeros_like(higher), higher)
        exponentials = exp_below(logits, shift[:, None])
        shrink = exp_below(largest, shift)
        value = at.value(batch, columns, key_head)
        context = context * shrink[:, None] + dot(exponentials.astype(value.dtype), value)
        return context, higher, total * shrink + jnp.sum(exponentials, axis=1)

    width = inputs.value.shape[3]
    largest, total = jnp.full((blocks.query,), -jnp.inf, at.dtype), jnp.zeros((blocks.query,), at.dtype)
    if inputs.sink is not None:  # the sink is a key with the value 0, processed first
        sink = at.sink(head)
        largest = jnp.full((blocks.query,), sink, at.dtype)
        total = total + jnp.where(sink == -jnp.inf, jnp.zeros_like(sink), jnp.ones_like(sink))
    start = (jnp.zeros((blocks.query, width), at.dtype), largest, total)
    context, largest, total = _loop(_bounds(ranges, batch, block, pl.cdiv(at.keys, blocks.key)), step, start)
    empty = total == 0
    divisor = jnp.where(empty, jnp.ones_like(total), total)
    store_rows(output, shapes.value, batch, rows, head, context / divisor[:, None])
    store(tops, (batch, head, rows.slice()), jnp.where(empty, jnp.zeros_like(total), largest), rows.inside())
    store(totals, (batch, head, rows.slice()), total, rows.inside())


class Saved(NamedTuple):
    """The arrays from which the gradient is computed.

    They are the cotangent of the output [B T N Hv] and, for each row [B N T], the largest logit, the total of
    exp(logits - largest) (0 if no key is visible), and rowsum(dO * O) minus the cotangent of the log-sum-exp.
    """

    cotangent: Array
    top: Array
    total: Array
    delta: Array


def _probabilities(at: Refs, saved: Saved, query, key, value, out, batch, head, rows: Span, columns: Span):
    """Returns (P, the gradient of the logits, the gradient of the logits before the cap) of a block."""
    logits, cap_slope = at.logits(query, key, batch, head, rows, columns)
    top, total = (at.vector(array, batch, head, rows)[:, None] for array in (saved.top, saved.total))
    # Rows beyond the end are read as 0 too, so that the total can be 0.
    probabilities = exp_below(logits, top) / jnp.where(total == 0, jnp.ones_like(total), total)
    towards = dot(out, value, trans_b=True)
    slope = probabilities * (towards - at.vector(saved.delta, batch, head, rows)[:, None])
    return probabilities, slope, slope if cap_slope is None else slope * cap_slope


def _cotangent(at: Refs, saved: Saved, batch, rows: Span, head) -> Array:
    return at.rows(saved.cotangent, at.shapes.value, batch, rows, head)


def query_kernel(inputs: Arrays, ranges, saved: Saved, gradient, *, shapes: Shapes, options: Options, blocks: Blocks):
    """dQ. Grid: (blocks of queries, heads, batch)."""
    at = Refs(inputs, shapes, options)
    block, head, batch = (pl.program_id(axis) for axis in range(3))
    key_head = lax.div(head, jnp.int32(shapes.query[2] // shapes.key[2]))
    rows = Span(block * blocks.own, blocks.own, at.queries)
    query, out = at.query(batch, rows, head), _cotangent(at, saved, batch, rows, head)

    def step(index, total):
        columns = Span(index * blocks.step, blocks.step, at.keys)
        key, value = at.key(batch, columns, key_head), at.value(batch, columns, key_head)
        _, _, slope = _probabilities(at, saved, query, key, value, out, batch, head, rows, columns)
        return total + dot(slope.astype(key.dtype), key)

    bounds = _bounds(ranges, batch, block, pl.cdiv(at.keys, blocks.step))
    total = _loop(bounds, step, jnp.zeros(query.shape, at.dtype))
    store_rows(gradient, shapes.query, batch, rows, head, total * options.scale)


def key_kernel(inputs: Arrays, ranges, saved: Saved, keys, values, *, shapes: Shapes, options: Options, blocks: Blocks):
    """dK and dV. Grid: (blocks of keys, key heads, batch)."""
    at = Refs(inputs, shapes, options)
    block, key_head, batch = (pl.program_id(axis) for axis in range(3))
    group = shapes.query[2] // shapes.key[2]
    columns = Span(block * blocks.own, blocks.own, at.keys)
    key, value = at.key(batch, columns, key_head), at.value(batch, columns, key_head)

    def over_heads(index, totals):
        head = key_head * group + index

        def step(index, totals):
            rows = Span(index * blocks.step, blocks.step, at.queries)
            query, out = at.query(batch, rows, head), _cotangent(at, saved, batch, rows, head)
            weights, _, slope = _probabilities(at, saved, query, key, value, out, batch, head, rows, columns)
            towards_key = dot(slope.astype(query.dtype), query, trans_a=True)
            return totals[0] + towards_key, totals[1] + dot(weights.astype(out.dtype), out, trans_a=True)

        return _loop(_bounds(ranges, batch, block, pl.cdiv(at.queries, blocks.step)), step, totals)

    totals = jnp.zeros(key.shape, at.dtype), jnp.zeros(value.shape, at.dtype)
    totals = over_heads(jnp.int32(0), totals) if group == 1 else _loop((0, group), over_heads, totals)
    store_rows(keys, shapes.key, batch, columns, key_head, totals[0] * options.scale)
    store_rows(values, shapes.value, batch, columns, key_head, totals[1])


def bias_kernel(inputs: Arrays, ranges, saved: Saved, gradient, *, shapes: Shapes, options: Options, blocks: Blocks):
    """dbias, summed over the batch elements and heads that share it, and over the block along broadcast axes.

    Grid: (blocks of queries, blocks of keys, heads of the bias, batch of the bias).
    """
    at = Refs(inputs, shapes, options)
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
    store(gradient, (bias_batch, bias_head, *place), jnp.sum(total, axis=shared), *inside)
