"""Exact attention in blocks of queries, memory linear in the number of keys, with a hand-written gradient.

The tiling of Dao et al. 2022 (FlashAttention) in the form that is fastest on a CPU: one head at a time, a block of
queries against all the keys it can see, every product a plain 2-D one. The forward pass saves the output and the
log-sum-exp of each row; the backward pass recomputes the probabilities P = exp(logits - lse) block by block:

    dV = P^T dO,  dS = P * (dO V^T - rowsum(dO * O)),  dQ = dS K scale,  dK = dS^T Q scale,  dbias = sum of dS

Keys outside a causal band or a window are never read. A mask or a bias is read block by block, in the shape it
was given; the gradient of a broadcast bias is summed into that shape. Reverse mode only (and forward over reverse).
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from attention_research.kernels.attention.arguments import Arrays, Options, in_band
from attention_research.kernels.precision import accumulator

#: Queries a block. Measured on 2 cores at T = 512 to 4096: 512 is best forward and backward.
QUERY_BLOCK = 512
#: Below this, blocks of a window cost more in dispatch than they save in keys.
SMALLEST_BLOCK = 128
#: A triangle of more blocks than this is cut into this many strips, so that the program stays small.
MOST_STRIPS = 16

# Contracting the last axes (A @ B.T) and the first axes (A.T @ B) of two matrices.
LAST = (((1,), (1,)), ((), ()))
FIRST = (((0,), (0,)), ((), ()))


class Strip(NamedTuple):
    """Blocks first <= i < last of the queries; each sees `width` keys from within [start, stop)."""

    first: int
    last: int
    start: int
    stop: int
    width: int


class Plan(NamedTuple):
    """How one head is cut up: `block` queries at a time; the last block overlaps the one before where T is ragged."""

    block: int
    count: int
    strips: tuple[Strip, ...]


def plan(query_length: int, key_length: int, options: Options) -> Plan:
    """Blocks of equal size, and the keys that each can see."""
    T, S, left, right = query_length, key_length, options.left, options.right
    query_block = QUERY_BLOCK
    if left is not None and right is not None:
        query_block = min(query_block, max(SMALLEST_BLOCK, left + right))
    count = math.ceil(T / query_block)
    block = math.ceil(T / count)
    count = math.ceil(T / block)
    if left is None and right is None:
        return Plan(block, count, (Strip(0, count, 0, S, S),))
    if left is not None and right is not None:
        return Plan(block, count, (Strip(0, count, 0, S, min(S, block + left + right)),))
    strips = []
    size = math.ceil(count / MOST_STRIPS)
    for first in range(0, count, size):
        last = min(first + size, count)
        start = 0 if left is None else max(0, min(min(first * block, T - block) - left, S - 1))
        stop = S if right is None else min(S, last * block + right)
        strips.append(Strip(first, last, start, stop, stop - start))
    return Plan(block, count, tuple(strips))


def _varying_zeros(like: Array) -> Array:
    """Zeros for a loop's carry that vary over the mesh axes that `like` varies over (shard_map checks it)."""
    return jnp.where(jnp.zeros((), bool), like, jnp.zeros_like(like))


def _at(*starts: Array | int) -> tuple[Array, ...]:
    """Starts of a dynamic slice: all int32, also under x64."""
    return tuple(jnp.asarray(start, jnp.int32) for start in starts)


class _Head:
    """One head's view of the arrays: 2-D query, key, value, and the parts of bias and mask that a block needs."""

    def __init__(self, arrays: Arrays, options: Options, layout: Plan, index: Array):
        N, K = arrays.query.shape[1], arrays.key.shape[1]
        self.arrays, self.options, self.layout = arrays, options, layout
        self.batch, self.head = index // N, index % N
        self.dtype = accumulator(arrays.query.dtype)
        self.query = self.matrix(arrays.query, self.head)
        self.key = self.matrix(arrays.key, self.head // (N // K))
        self.value = self.matrix(arrays.value, self.head // (N // K))

    def matrix(self, array: Array, head: Array) -> Array:
        """[T H] of this batch element and head, in the accumulator's dtype."""
        part = lax.dynamic_slice(array, _at(self.batch, head, 0, 0), (1, 1, *array.shape[2:]))
        return part[0, 0].astype(self.dtype)

    def rows(self, block: Array, array: Array) -> Array:
        """The block's rows of `array` [T ...]."""
        return lax.dynamic_slice_in_dim(array, self.first_row(block), self.layout.block)

    def first_row(self, block: Array) -> Array:
        return jnp.minimum(block * self.layout.block, self.query.shape[0] - self.layout.block)

    def first_key(self, strip: Strip, block: Array) -> Array | int:
        if strip.width == strip.stop - strip.start:
            return strip.start
        return jnp.clip(self.first_row(block) - self.options.left, strip.start, strip.stop - strip.width)

    def corner(self, array: Array, strip: Strip, block: Array) -> tuple[tuple, tuple[int, ...]]:
        """Where the block lies in a broadcast [B N T S] array: (starts, sizes)."""
        starts = (self.batch, self.head, self.first_row(block), self.first_key(strip, block))
        sizes = (1, 1, self.layout.block, strip.width)
        whole = [size == 1 for size in array.shape]
        starts = _at(*(0 if one else start for start, one in zip(starts, whole, strict=True)))
        return starts, tuple(1 if one else size for size, one in zip(sizes, whole, strict=True))

    def part(self, array: Array, strip: Strip, block: Array) -> Array:
        """The block's part of a broadcast [B N T S] array: 2-D, each axis whole or 1."""
        return lax.dynamic_slice(array, *self.corner(array, strip, block))[0, 0]

    def keys(self, strip: Strip, block: Array, array: Array) -> Array:
        """The rows of key or value that the block sees."""
        if strip.width == array.shape[0]:
            return array
        return lax.dynamic_slice_in_dim(array, self.first_key(strip, block), strip.width)

    def logits(self, strip: Strip, block: Array) -> tuple[Array, Array, Array]:
        """(the scaled query block, the keys, the logits with -inf where a query may not look)."""
        arrays, options = self.arrays, self.options
        query = self.rows(block, self.query) * jnp.asarray(options.scale, self.dtype)
        key = self.keys(strip, block, self.key)
        logits = lax.dot_general(query, key, LAST)
        if arrays.bias is not None:
            logits = logits + self.part(arrays.bias, strip, block).astype(self.dtype)
        rows = self.first_row(block) + jnp.arange(self.layout.block, dtype=jnp.int32)[:, None]
        columns = self.first_key(strip, block) + jnp.arange(strip.width, dtype=jnp.int32)[None, :]
        terms = [in_band(rows, columns, options)]
        if arrays.mask is not None:
            terms.append(self.part(arrays.mask, strip, block))
        if arrays.query_lengths is not None:
            terms.append(rows < arrays.query_lengths[self.batch])
        if arrays.key_lengths is not None:
            terms.append(columns < arrays.key_lengths[self.batch])
        for term in terms:
            if term is not None:
                logits = jnp.where(term, logits, -jnp.inf)
        return query, key, logits

    def join(self, blocks: list[Array]) -> Array:
        """[count, block, ...] pieces in order -> [T ...], dropping what the last block overlaps."""
        T, block, count = self.query.shape[0], self.layout.block, self.layout.count
        stacked = jnp.concatenate(blocks) if len(blocks) > 1 else blocks[0]
        rows = stacked.reshape(count * block, *stacked.shape[2:])
        if count * block == T:
            return rows
        return jnp.concatenate([rows[: (count - 1) * block], rows[count * block - (T - (count - 1) * block) :]])


def _forward_head(head: _Head) -> tuple[Array, Array]:
    """(output [T Hv], log-sum-exp [T]); an empty row has output 0 and log-sum-exp 0."""

    def step(strip: Strip, block: Array) -> tuple[Array, Array]:
        _, _, logits = head.logits(strip, block)
        largest = jnp.max(logits, axis=-1)
        largest = jnp.where(largest == -jnp.inf, jnp.zeros_like(largest), largest)
        exponentials = jnp.exp(logits - largest[:, None])
        total = jnp.sum(exponentials, axis=-1)
        empty = total == 0
        total = jnp.where(empty, jnp.ones_like(total), total)
        context = exponentials @ head.keys(strip, block, head.value) / total[:, None]
        return context, jnp.where(empty, jnp.zeros_like(total), largest + jnp.log(total))

    pieces = [_over_blocks(functools.partial(step, strip), strip) for strip in head.layout.strips]
    contexts, sums = zip(*pieces, strict=True)
    return head.join(list(contexts)), head.join(list(sums))


def _over_blocks(step, strip: Strip):
    """step(block) for the strip's blocks, stacked."""
    if strip.last - strip.first == 1:
        return jax.tree.map(lambda x: x[None], step(jnp.asarray(strip.first, jnp.int32)))
    return lax.map(step, jnp.arange(strip.first, strip.last, dtype=jnp.int32))


def _backward_head(head: _Head, output: Array, lse: Array, cotangent: Array, bias_gradient: Array | None):
    """(dquery [T H], dkey [S H], dvalue [S Hv]) of one head, and the bias gradient with this head's part added."""
    layout, options, S = head.layout, head.options, head.key.shape[0]
    delta = jnp.sum(cotangent * output, axis=-1)
    ragged = layout.count * layout.block != head.query.shape[0]

    def add(total: Array, part: Array, strip: Strip, block: Array) -> Array:
        if strip.width == S:
            return total + part
        at = _at(0, head.first_key(strip, block))
        return lax.dynamic_update_slice(total, lax.dynamic_slice(total, at, part.shape) + part, at)

    def step(strip: Strip, carry, block: Array):
        key_gradient, value_gradient, bias_gradient = carry
        query, key, logits = head.logits(strip, block)
        probabilities = jnp.exp(logits - head.rows(block, lse)[:, None])
        out, slope = head.rows(block, cotangent), head.rows(block, delta)
        if ragged:  # rows that the block before has already counted
            fresh = head.first_row(block) + jnp.arange(layout.block, dtype=jnp.int32) >= block * layout.block
            out = jnp.where(fresh[:, None], out, jnp.zeros_like(out))
            slope = jnp.where(fresh, slope, jnp.zeros_like(slope))
        value = head.keys(strip, block, head.value)
        towards = lax.dot_general(out, value, LAST)
        logit_gradient = probabilities * (towards - slope[:, None])
        # Transposed sums: [H block] @ [block S] is the product that XLA's CPU kernels do without a copy.
        key_gradient = add(key_gradient, lax.dot_general(query, logit_gradient, FIRST), strip, block)
        value_gradient = add(value_gradient, lax.dot_general(out, probabilities, FIRST), strip, block)
        if bias_gradient is not None:
            starts, sizes = head.corner(bias_gradient, strip, block)
            part = logit_gradient
            for axis in (0, 1):
                if sizes[2 + axis] == 1:
                    part = jnp.sum(part, axis=axis, keepdims=True)
            part = lax.dynamic_slice(bias_gradient, starts, sizes) + part[None, None]
            bias_gradient = lax.dynamic_update_slice(bias_gradient, part, starts)
        query_gradient = logit_gradient @ key * jnp.asarray(options.scale, head.dtype)
        return (key_gradient, value_gradient, bias_gradient), query_gradient

    carry = (_varying_zeros(head.key.T), _varying_zeros(head.value.T), bias_gradient)
    pieces = []
    for strip in layout.strips:
        blocks = jnp.arange(strip.first, strip.last, dtype=jnp.int32)
        if len(blocks) == 1:
            carry, piece = step(strip, carry, blocks[0])
            pieces.append(piece[None])
        else:
            carry, piece = lax.scan(functools.partial(step, strip), carry, blocks)
            pieces.append(piece)
    return (head.join(pieces), carry[0].T, carry[1].T), carry[2]


def _heads_first(arrays: Arrays) -> Arrays:
    query, key, value = (x.swapaxes(1, 2) for x in arrays[:3])
    return arrays._replace(query=query, key=key, value=value)


def _run(arrays: Arrays, options: Options) -> tuple[Array, Array]:
    """(output [B T N Hv], log-sum-exp [B*N T])."""
    B, T, N, _ = arrays.query.shape
    layout = plan(T, arrays.key.shape[1], options)
    inner = _heads_first(arrays)

    def head(index: Array) -> tuple[Array, Array]:
        output, lse = _forward_head(_Head(inner, options, layout, index))
        return output.astype(arrays.query.dtype), lse

    output, lse = lax.map(head, jnp.arange(B * N, dtype=jnp.int32))
    return output.reshape(B, N, T, -1).swapaxes(1, 2), lse


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _attend(arrays: Arrays, options: Options) -> Array:
    return _run(arrays, options)[0]


def _attend_forward(arrays: Arrays, options: Options):
    output, lse = _run(arrays, options)
    return output, (arrays, output, lse)


def _attend_backward(options: Options, residuals, cotangent: Array) -> tuple[Arrays]:
    arrays, output, lse = residuals
    B, T, N, H = arrays.query.shape
    S, K, Hv = arrays.value.shape[1:]
    dtype = accumulator(arrays.query.dtype)
    layout = plan(T, S, options)
    inner = _heads_first(arrays)
    output, cotangent = output.swapaxes(1, 2), cotangent.swapaxes(1, 2)

    def head(bias_gradient, index: Array):
        one = _Head(inner, options, layout, index)
        gradients, bias_gradient = _backward_head(
            one, one.matrix(output, one.head), lse[index], one.matrix(cotangent, one.head), bias_gradient
        )
        return bias_gradient, gradients

    bias_gradient = None if arrays.bias is None else _varying_zeros(arrays.bias.astype(dtype))
    bias_gradient, (query, key, value) = lax.scan(head, bias_gradient, jnp.arange(B * N, dtype=jnp.int32))
    query = query.reshape(B, N, T, H).swapaxes(1, 2).astype(arrays.query.dtype)
    key = key.reshape(B, K, N // K, S, H).sum(2).swapaxes(1, 2).astype(arrays.key.dtype)
    value = value.reshape(B, K, N // K, S, Hv).sum(2).swapaxes(1, 2).astype(arrays.value.dtype)
    bias = None if bias_gradient is None else bias_gradient.astype(arrays.bias.dtype)
    return (Arrays(query, key, value, bias, None, None, None),)


_attend.defvjp(_attend_forward, _attend_backward)


def _vary_together(arrays: Arrays) -> Arrays:
    """The same values, each varying over all mesh axes that any of them varies over.

    Inside shard_map the carries of the loops need this, and it sums the gradient of an array that is the same on all
    devices over them. XLA folds it away: `never` is False.
    """
    never = jnp.zeros((), bool)
    for array in jax.tree.leaves(arrays):
        never = never & array[(0,) * array.ndim].astype(bool)
    return jax.tree.map(lambda array: jnp.where(never, jnp.zeros_like(array), array), arrays)


def attend(arrays: Arrays, options: Options) -> Array:
    """Equals `reference.attend`, computed in float32 at least; [B T N Hv]."""
    return _attend(_vary_together(arrays), options)
