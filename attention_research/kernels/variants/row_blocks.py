"""Attention with custom weights instead of a plain softmax, in blocks of queries: memory is linear in the keys.

For each block, the logits of its visible keys are computed, converted to weights and applied. The gradient recomputes
them. With a window on both sides, a block reads only the keys within the window.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention.arguments import Scale, in_band, prepare
from attention_research.kernels.masks import combine_masks
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.symbolic import symbolic

#: (logits [B N t S] in float32, visible or None) -> weights, which are 0 at keys that are not visible.
Weigh = Callable[[Float[Array, "B N t S"], Bool[Array, "..."] | None], Float[Array, "B N t S"]]


def attend_by_rows(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    mask: Bool[Array, "#B #N #T #S"] | None,
    weigh: Weigh,
    *,
    scale: Scale,
    is_causal: bool,
    local_window_size: int | tuple[int, int] | None,
    block_size: int,
    num_first: int = 0,
    query_offset: int | Int[Array, ""] = 0,
    bias: Float[Array, "#B #N #T #S"] | None = None,
) -> Float[Array, "B T N Hv"]:
    """weigh(query key^T scale + bias, visible) value. Arguments are those of `dot_product_attention`.

    The first `num_first` keys are visible in addition to the window, but causality and the mask apply to them too. A
    `query_offset` that is an array makes the band a part of the mask. Raises ValueError naming the argument and the
    axis.
    """
    arrays, options = prepare(
        query, key, value, bias, mask, scale, is_causal, None, None, local_window_size, query_offset=query_offset
    )
    query, scale, left, right = arrays.query, options.scale, options.left, options.right
    (B, T, N, H), (S, K) = query.shape, key.shape[1:3]
    if arrays.query_offset is not None:
        rows = jnp.arange(T, dtype=jnp.int32)[:, None] + arrays.query_offset[:, None, None, None]
        band = in_band(rows, jnp.arange(S, dtype=jnp.int32), options)
        mask, left, right = combine_masks(mask, band), None, None
    if block_size < 1:
        raise ValueError(f"block_size: expected at least 1, got {block_size}")
    if 0 in (B, T, S):
        return jnp.zeros((B, T, N, value.shape[3]), query.dtype)
    whole = symbolic(B, T, S)  # with symbolic sizes, one block of all rows
    block = T if whole else min(block_size, T)
    count = 1 if whole else math.ceil(T / block)
    before, width = 0, S  # keys that a block reads: before its first query, in total
    if not whole and left is not None and right is not None and block + left + right + num_first < S:
        before, width = left, block + left + right
    sliced = not whole and width < S

    def rows_of(first: Array, rows: Array, key: Array, value: Array) -> Array:
        """The output of one block: rows [B t K G H] from position `first` on, keys and values [B width K H]."""
        start = jnp.clip(first - before, 0, S - width) if sliced else jnp.int32(0)
        columns = start + jnp.arange(width, dtype=jnp.int32)
        positions = first + jnp.arange(block, dtype=jnp.int32)[:, None]
        visible = _visible(positions, columns, left, right, num_first, sliced)
        if sliced and num_first:
            columns = jnp.concatenate([jnp.arange(num_first, dtype=jnp.int32), columns])

        def piece(x: Array) -> Array:
            """The part of a mask or bias [#B #N #T #S] that belongs to the block."""
            if not whole and x.shape[2] > 1:
                x = jnp.take(x, jnp.minimum(positions[:, 0], T - 1), axis=2)
            return jnp.take(x, columns, axis=3) if sliced and x.shape[3] > 1 else x

        if mask is not None:
            visible = piece(mask) if visible is None else visible & piece(mask)
        logits = einsum("BTKGH,BSKH->BKGTS", rows, key) * jnp.asarray(scale, accumulator(rows.dtype))
        scores = logits.reshape(B, N, block, -1)
        if bias is not None:
            scores = scores + piece(bias).astype(scores.dtype)
        weights = weigh(scores, visible).astype(value.dtype)
        return _weighted(weights.reshape(logits.shape), value).astype(rows.dtype)

    rows = query.reshape(B, T, K, N // K, H)
    if count == 1 and not sliced:
        return rows_of(jnp.int32(0), rows, key, value).reshape(B, T, N, -1)
    first = jnp.arange(count, dtype=jnp.int32) * block
    rows = jnp.pad(rows, [(0, 0), (0, count * block - T), (0, 0), (0, 0), (0, 0)])
    rows = jnp.moveaxis(rows.reshape(B, count, block, K, N // K, H), 1, 0)
    rows_of = jax.checkpoint(rows_of)
    if not sliced:
        context = lax.map(lambda one: rows_of(*one, key, value), (first, rows))
    else:
        index = jnp.clip(first - before, 0, S - width)[:, None] + jnp.arange(width, dtype=jnp.int32)

        def seen(x: Array) -> Array:
            """The keys of all blocks [c B num_first+width K H], in one gather, so that the gradient is summed once."""
            windows = jnp.moveaxis(jnp.take(x, index, axis=1), 1, 0)
            always = jnp.broadcast_to(x[None, :, :num_first], (count, B, num_first, *x.shape[2:]))
            return jnp.concatenate([always, windows], axis=2)

        context = lax.map(lambda one: rows_of(*one), (first, rows, seen(key), seen(value)))
    return jnp.moveaxis(context, 0, 1).reshape(B, count * block, N, -1)[:, :T]


def _weighted(weights: Float[Array, "B K G T S"], value: Float[Array, "B S K H"]) -> Float[Array, "B T K G H"]:
    """The sums of the weighted values. With the weights first, XLA's CPU backend (0.10.2) rejects the product of
    bfloat16 with values that are cached as [B K S H]."""
    if value.dtype == accumulator(value.dtype):
        return einsum("BKGTS,BSKH->BTKGH", weights, value)
    return einsum("BSKH,BKGTS->BTKGH", value, weights)


def _visible(
    positions: Array, columns: Array, left: int | None, right: int | None, num_first: int, sliced: bool
) -> Array | None:
    """The mask [t S] of the band and the first keys. If sliced, the first keys are separate columns in front."""
    if left is None and right is None:
        return None
    seen = jnp.ones((), bool)
    if right is not None:
        seen = seen & (columns <= positions + right)
    if left is None:
        return seen
    near = columns >= positions - left
    if right is None or not sliced:
        return seen & (near | (columns < num_first))
    seen = seen & near & (columns >= num_first)
    always = jnp.arange(num_first, dtype=jnp.int32) <= positions + right
    return jnp.concatenate([always, seen], axis=-1)
