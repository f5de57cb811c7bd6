"""Exact attention in blocks of queries, with memory linear in the number of keys and a hand-written gradient.

This is the tiling of Dao et al. 2022 (FlashAttention) in the form that is fastest on a CPU: one head at a time, a block
of queries with all of its visible keys, and only 2-D products. The forward pass saves the maximum m and the sum l of
each row. The backward pass recomputes the probabilities P = exp(logits - m) / l block by block:

    dV = P^T dO,  dS = P * (dO V^T - rowsum(P * dO V^T)),  dQ = dS K scale,  dK = dS^T Q scale,  dbias = sum of dS

m and l are saved separately, because rounding of the log-sum-exp m + log(l) loses log(l) if m is large. For example, if
a finite bias masks a row so that all logits are -1e9, P would be 1 for every key instead of 1 / S.

Keys outside a causal band or a window, and keys that lengths or segments hide from a whole block, are never read. A
mask or bias is read block by block in its original shape, and the gradient of a broadcast bias is summed to that shape.
Terms that depend on the distance (a bias, or Shaw's tables) are laid out one block at a time.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from attention_research.kernels.attention.arguments import Arrays, Options, exp_below
from attention_research.kernels.attention.distances import gathered, spread, unskewed
from attention_research.kernels.attention.head import FIRST, LAST, Head, at
from attention_research.kernels.attention.layout import Plan, Ranges, Span, Strip, finds, plan, ranges
from attention_research.kernels.attention.loop_carries import vary_together, varying_zeros
from attention_research.kernels.derivatives import both_modes
from attention_research.kernels.precision import accumulator


class Sums(NamedTuple):
    """The gradients that the backward pass of a head sums over its blocks; None for arrays that are absent.

    They are the gradients of keys and values, transposed [H S], of the whole bias, of the bias by distance, skewed, of
    the two tables, and of the sink.
    """

    key: Array
    value: Array
    bias: Array | None
    distance: Array | None
    key_table: Array | None
    value_table: Array | None
    sink: Array | None = None


class Rows(NamedTuple):
    """The results of the forward pass for each row.

    They are the output [T Hv], the largest logit [T], and the total [T], the sum of exp(logits - largest). For a row
    without a visible key and without a sink, all three are 0.
    """

    output: Array
    largest: Array
    total: Array


def _forward_head(head: Head) -> Rows:
    block_size, table = head.layout.block, head.tables["value_table"]
    zero = varying_zeros(head.query[:block_size, 0] * head.value[0, 0])
    nothing = Rows(varying_zeros(head.value[:1] * head.query[:block_size, :1]), zero, zero)
    if head.sink is not None:
        largest = jnp.maximum(zero + head.sink, jnp.finfo(head.dtype).min)
        nothing = nothing._replace(largest=largest, total=exp_below(zero + head.sink, largest))

    def seen(block: Array, span: Span) -> Rows:
        _, _, logits, _ = head.logits(span, block)
        largest = jnp.max(logits, axis=-1)
        if head.sink is not None:
            largest = jnp.maximum(largest, head.sink)
        largest = jnp.where(largest == -jnp.inf, jnp.zeros_like(largest), largest)
        exponentials = exp_below(logits, largest[:, None])
        total = jnp.sum(exponentials, axis=-1)
        context = exponentials @ head.keys(span, head.value)
        if table is not None:
            context = context + gathered(exponentials, len(table), head.first_distance(span, block), total) @ table
        if head.sink is not None:
            total = total + exp_below(head.sink, largest)
        return Rows(context / _divisor(total)[:, None], largest, total)

    def step(strip: Strip, block: Array) -> Rows:
        return head.over_keys(strip, block, functools.partial(seen, block), nothing)

    pieces: list[Rows] = []
    for strip in head.layout.strips:
        blocks = head.blocks(strip, pieces[-1].total if pieces else head.query)
        if len(blocks) == 1:
            pieces.append(jax.tree.map(lambda x: x[None], step(strip, blocks[0])))
        else:
            pieces.append(lax.map(functools.partial(step, strip), blocks))
    return Rows._make(head.join(list(parts)) for parts in zip(*pieces, strict=True))


def _divisor(total: Array) -> Array:
    """The total, with 0 replaced by 1."""
    return jnp.where(total == 0, jnp.ones_like(total), total)


def _add_keys(total: Array, part: Array, span: Span) -> Array:
    """Adds part [H width] to total [H S] at the span."""
    if span.width == total.shape[1]:
        return total + part
    corner = at(0, span.start)
    return lax.dynamic_update_slice(total, lax.dynamic_slice(total, corner, part.shape) + part, corner)


def _add_bias(head: Head, total: Array, part: Array, span: Span, block: Array) -> Array:
    """Adds the logit gradients of a block, summed over the broadcast axes of the bias, to the bias gradient."""
    starts, sizes = head.corner(total, span, block)
    for axis in (0, 1):
        if sizes[2 + axis] == 1:
            part = jnp.sum(part, axis=axis, keepdims=True)
    return lax.dynamic_update_slice(total, lax.dynamic_slice(total, starts, sizes) + part[None, None], starts)


def _backward_head(head: Head, rows: Rows, log_cotangent: Array, bias_gradient: Array | None):
    """Returns (query gradient [T H], sums) of one head. The bias gradient accumulates over heads.

    `rows` holds the cotangent of the output instead of the output. `log_cotangent` [T] is the cotangent of the
    log-sum-exp.
    """
    layout, options, tables = head.layout, head.options, head.tables
    ragged = layout.count * layout.block != head.query.shape[0]

    def seen(block: Array, sums: Sums, span: Span) -> tuple[Sums, tuple[Array, Array]]:
        query, key, logits, cap_slope = head.logits(span, block)
        # P = exponentials / total. The cotangents are divided instead, because they are narrower.
        exponentials = exp_below(logits, head.rows(block, rows.largest)[:, None])
        divisor = _divisor(head.rows(block, rows.total))[:, None]
        out, of_log = head.rows(block, rows.output) / divisor, head.rows(block, log_cotangent)[:, None]
        if ragged:  # exclude rows that the previous block has already counted
            fresh = head.first_row(block) + jnp.arange(layout.block, dtype=jnp.int32) >= block * layout.block
            out, of_log = (jnp.where(fresh[:, None], x, jnp.zeros_like(x)) for x in (out, of_log))
        towards = lax.dot_general(out, head.keys(span, head.value), LAST)
        if tables["value_table"] is not None and sums.value_table is not None:
            by_distance = lax.dot_general(out, tables["value_table"], LAST)
            towards = spread(by_distance, head.first_distance(span, block), towards)
            whole = jnp.sum(exponentials, axis=-1)
            shares = gathered(exponentials, len(tables["value_table"]), head.first_distance(span, block), whole)
            sums = sums._replace(value_table=sums.value_table + lax.dot_general(shares, out, FIRST))
        # Summed here instead of as rowsum(dO * O), so that a single probability of 1 gets exactly the gradient 0.
        along = jnp.sum(exponentials * towards, axis=-1, keepdims=True)
        logit_gradient = exponentials * (towards - (along - of_log) / divisor)
        if sums.bias is not None:
            sums = sums._replace(bias=_add_bias(head, sums.bias, logit_gradient, span, block))
        if sums.distance is not None:
            starts, sizes = head.distance_corner(span, block)
            part = lax.dynamic_slice(sums.distance, starts, sizes) + logit_gradient
            sums = sums._replace(distance=lax.dynamic_update_slice(sums.distance, part, starts))
        if cap_slope is not None:
            logit_gradient = logit_gradient * cap_slope
        # The sums are transposed, because XLA's CPU kernels compute [H block] @ [block S] without a copy.
        sums = sums._replace(
            key=_add_keys(sums.key, lax.dot_general(query, logit_gradient, FIRST), span),
            value=_add_keys(sums.value, lax.dot_general(out, exponentials, FIRST), span),
        )
        query_gradient = logit_gradient @ key
        if tables["key_table"] is not None and sums.key_table is not None:
            whole = jnp.sum(logit_gradient, axis=-1)
            shares = gathered(logit_gradient, len(tables["key_table"]), head.first_distance(span, block), whole)
            sums = sums._replace(key_table=sums.key_table + lax.dot_general(shares, query, FIRST))
            query_gradient = query_gradient + shares @ tables["key_table"]
        return sums, (query_gradient * jnp.asarray(options.scale, head.dtype), along[:, 0])

    def step(strip: Strip, sums: Sums, block: Array) -> tuple[Sums, tuple[Array, Array]]:
        rows_of_query = varying_zeros(head.query[: layout.block])
        skipped = (sums, (rows_of_query, rows_of_query[:, 0]))
        return head.over_keys(strip, block, functools.partial(seen, block, sums), skipped)

    others = (head.by_distance, tables["key_table"], tables["value_table"])
    others = (None if one is None else varying_zeros(one) for one in others)
    sums = Sums(varying_zeros(head.key.T), varying_zeros(head.value.T), bias_gradient, *others)
    pieces: list[tuple[Array, Array]] = []
    for strip in layout.strips:
        blocks = head.blocks(strip, pieces[-1][0] if pieces else head.query)
        if len(blocks) == 1:
            sums, piece = step(strip, sums, blocks[0])
            pieces.append(jax.tree.map(lambda x: x[None], piece))
        else:
            sums, piece = lax.scan(functools.partial(step, strip), sums, blocks)
            pieces.append(piece)
    query, along = (head.join(list(parts)) for parts in zip(*pieces, strict=True))
    if head.sink is not None:
        share = exp_below(head.sink, rows.largest) / _divisor(rows.total)
        sums = sums._replace(sink=-jnp.sum(share * (along - log_cotangent)))
    return query, sums


def _prepared(arrays: Arrays, options: Options) -> tuple[Arrays, Plan, Ranges | None]:
    """Returns (the arrays in the layout [B N T H], the plan of blocks, the ranges of visible keys)."""
    moved = arrays.query_offset is not None
    layout = plan(arrays.query.shape[1], arrays.key.shape[1], options, finds(arrays), moved)
    query, key, value = (x.swapaxes(1, 2) for x in arrays[:3])
    return arrays._replace(query=query, key=key, value=value), layout, ranges(arrays, options, layout)


def _run(arrays: Arrays, options: Options) -> Rows:
    """The rows of all heads: output [B T N Hv], largest and total [B*N T]."""
    B, T, N, _ = arrays.query.shape
    inner, layout, found = _prepared(arrays, options)

    def head(index: Array) -> Rows:
        rows = _forward_head(Head(inner, options, layout, found, index))
        return rows._replace(output=rows.output.astype(arrays.query.dtype))

    rows = lax.map(head, jnp.arange(B * N, dtype=jnp.int32))
    return rows._replace(output=rows.output.reshape(B, N, T, -1).swapaxes(1, 2))


def _result(arrays: Arrays, options: Options, rows: Rows) -> Any:
    """The output, or (output, log-sum-exp [B T N])."""
    if not options.residual:
        return rows.output
    B, T, N, _ = arrays.query.shape
    log = jnp.where(rows.total == 0, -jnp.inf, rows.largest + jnp.log(_divisor(rows.total)))
    return rows.output, log.reshape(B, N, T).swapaxes(1, 2)


def plain(arrays: Arrays, options: Options) -> Any:
    """`attend` with JAX's automatic derivative. In forward mode, memory is linear in S."""
    arrays = vary_together(arrays)
    return _result(arrays, options, _run(arrays, options))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _attend(arrays: Arrays, options: Options) -> Any:
    return _result(arrays, options, _run(arrays, options))


def _attend_forward(arrays: Arrays, options: Options):
    rows = _run(arrays, options)
    return _result(arrays, options, rows), (arrays, rows.largest, rows.total)


def _attend_backward(options: Options, residuals, cotangent) -> tuple[Arrays]:
    arrays, largest, total = residuals
    cotangent, log_cotangent = cotangent if options.residual else (cotangent, None)
    B, T, N, H = arrays.query.shape
    S, K, Hv = arrays.value.shape[1:]
    inner, layout, found = _prepared(arrays, options)
    cotangent = cotangent.swapaxes(1, 2)
    if log_cotangent is None:
        log_cotangent = varying_zeros(total)
    else:  # the log-sum-exp of a row without a visible key is constant
        log_cotangent = log_cotangent.swapaxes(1, 2).reshape(B * N, T)
        log_cotangent = jnp.where(total == 0, jnp.zeros_like(log_cotangent), log_cotangent)

    def head(bias_gradient, index: Array):
        one = Head(inner, options, layout, found, index)
        rows = Rows(one.matrix(cotangent, one.head), largest[index], total[index])
        query, sums = _backward_head(one, rows, log_cotangent[index], bias_gradient)
        distance = None if sums.distance is None else unskewed(sums.distance)
        return sums.bias, (query, sums._replace(key=sums.key.T, value=sums.value.T, bias=None, distance=distance))

    dtype = accumulator(arrays.query.dtype)
    bias = None if arrays.bias is None else varying_zeros(arrays.bias.astype(dtype))
    bias, (query, sums) = lax.scan(head, bias, jnp.arange(B * N, dtype=jnp.int32))
    distance = sums.distance
    if distance is not None:
        distance = distance.reshape(B, N, -1).sum(0)
        distance = distance if arrays.distance_bias.shape[0] > 1 else distance.sum(0, keepdims=True)
    gradients = Arrays(
        query=query.reshape(B, N, T, H).swapaxes(1, 2),
        key=sums.key.reshape(B, K, N // K, S, H).sum(2).swapaxes(1, 2),
        value=sums.value.reshape(B, K, N // K, S, Hv).sum(2).swapaxes(1, 2),
        bias=bias,
        distance_bias=distance,
        key_table=None if sums.key_table is None else sums.key_table.sum(0),
        value_table=None if sums.value_table is None else sums.value_table.sum(0),
        sink=None if sums.sink is None else _of_sink(sums.sink.reshape(B, N).sum(0), arrays.sink),
    )
    return (Arrays._make(g if g is None else g.astype(x.dtype) for g, x in zip(gradients, arrays, strict=True)),)


def _of_sink(gradient: Array, sink: Array) -> Array:
    return gradient if sink.shape[0] > 1 else gradient.sum(keepdims=True)


_attend.defvjp(_attend_forward, _attend_backward)


def attend(arrays: Arrays, options: Options) -> Any:
    """The same function as `reference.attend`, [B T N Hv], computed in at least float32. Differentiable in both modes.

    With `options.residual`, the result is (output, log-sum-exp [B T N]).
    """
    attended = both_modes(lambda arrays: _attend(arrays, options), lambda arrays: plain(arrays, options))
    return attended(vary_together(arrays))
