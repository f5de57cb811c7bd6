"""Attention of blocks of queries to pieces of the keys, which the sparse attention patterns share.

The internal layout is B K M G P H: batch, key head, block, query head of the key head, position in the block, width. A
pattern is a list of pieces. The softmax is over all pieces together, and no [T S] array is formed.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import Scale, prepare, softmax_or_zero
from attention_research.kernels.precision import einsum
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.symbolic import expect_numbers

#: The number of logits that are computed at a time (4 MiB in float32).
GROUP_ELEMENTS = 2**20


class Piece(NamedTuple):
    """Keys for each block of queries, and a mask of the keys that each query may attend to.

    A key in two pieces would count twice, so that `visible` must be True in only one of them. M is 1 if all blocks have
    the same keys.
    """

    key: Float[Array, "B K #M C H"]
    value: Float[Array, "B K #M C Hv"]
    visible: Bool[Array, "#B #K #M #P C"]


def self_attention_scale(
    query: Array, key: Array, value: Array, mask: Array | None, scale: Scale, **others
) -> float | Array:
    """Checks the shapes and returns the scale of the logits. `others` are passed to `check_shapes`.

    Raises ValueError naming the argument and the axis.
    """
    check_shapes(
        query=(query, "B T N H"), key=(key, "B T K H"), value=(value, "B T K Hv"), mask=(mask, "B T"), **others
    )
    keys = None if mask is None else mask[:, None, None, :]
    _, options = prepare(query, key, value, None, keys, scale, False, None, None, None)
    return scale if isinstance(scale, jax.Array) else options.scale


def block_count(length: int, block_size: int) -> int:
    """The number of blocks that cover the length. Raises ValueError if `block_size` is below 1."""
    if block_size < 1:
        raise ValueError(f"block_size: expected at least 1, got {block_size}")
    expect_numbers("block_size", T=length)
    return math.ceil(length / block_size)


def real_keys(mask: Bool[Array, "B T"] | None, length: int) -> Bool[Array, "#B T"]:
    """The mask of non-padding keys. Without a mask, all keys are real."""
    return jnp.ones((1, length), bool) if mask is None else mask


def split(x: Array, block_size: int, axis: int = 1) -> Array:
    """Splits the axis into blocks [M P], padded with zeros (False) at the end."""
    count = block_count(x.shape[axis], block_size)
    after = count * block_size - x.shape[axis]
    x = jnp.pad(x, [(0, after if number == axis else 0) for number in range(x.ndim)])
    return x.reshape(*x.shape[:axis], count, block_size, *x.shape[axis + 1 :])


def key_blocks(x: Float[Array, "B T K H"], block_size: int) -> Float[Array, "B K M P H"]:
    """Splits keys or values into blocks, with heads before blocks."""
    return split(x, block_size).transpose(0, 3, 1, 2, 4)


def query_blocks(x: Float[Array, "B T N H"], key_heads: int, block_size: int) -> Float[Array, "B K M G P H"]:
    """Splits queries into blocks. Query head n belongs to key head n // G."""
    x = split(x, block_size)
    return x.reshape(*x.shape[:3], key_heads, x.shape[3] // key_heads, x.shape[-1]).transpose(0, 3, 1, 4, 2, 5)


def join(x: Float[Array, "B K M G P H"], length: int) -> Float[Array, "B T N H"]:
    """The inverse of `query_blocks`."""
    B, K, M, G, P, H = x.shape
    return x.transpose(0, 2, 4, 1, 3, 5).reshape(B, M * P, K * G, H)[:, :length]


def neighbours(x: Array, left: int, right: int, axis: int) -> Array:
    """Concatenates blocks m - left to m + right for each block m, with zeros (False) beyond the ends.

    `axis` is M and the next one P: [... M P ...] -> [... M (left + 1 + right) P ...].
    """
    count = x.shape[axis]
    x = jnp.pad(x, [(left, right) if number == axis else (0, 0) for number in range(x.ndim)])
    shifted = [x[(slice(None),) * axis + (slice(start, start + count),)] for start in range(left + 1 + right)]
    return jnp.concatenate(shifted, axis=axis + 1)


def attend_pieces(
    query: Float[Array, "B K M G P H"], pieces: list[Piece], scale: float | Float[Array, ""]
) -> Float[Array, "B K M G P Hv"]:
    """softmax(q k^T scale) v over the visible keys of all pieces together. A query with no visible key gives 0.

    Groups of blocks with about `GROUP_ELEMENTS` logits are computed sequentially and recomputed for the gradient, so
    that only inputs and outputs take memory that grows with the length.
    """
    B, K, M, G, P, _ = query.shape
    size = max(1, GROUP_ELEMENTS // max(1, B * K * G * P * sum(piece.key.shape[3] for piece in pieces)))
    if M <= size:
        return _attend(query, pieces, scale)
    groups = math.ceil(M / size)
    size = math.ceil(M / groups)

    def grouped(x: Array) -> Array:
        x = jnp.pad(x, [(0, groups * size - M if axis == 2 else 0) for axis in range(x.ndim)])
        return jnp.moveaxis(x.reshape(*x.shape[:2], groups, size, *x.shape[3:]), 2, 0)

    own = [[x.shape[2] == M for x in piece] for piece in pieces]
    moving = [
        [grouped(x) if mine else None for x, mine in zip(*both, strict=True)] for both in zip(pieces, own, strict=True)
    ]

    @jax.checkpoint
    def one(group: tuple[Array, list[list[Array | None]]]) -> Array:
        blocks = zip(pieces, group[1], strict=True)
        here = [Piece(*(x if y is None else y for x, y in zip(piece, part, strict=True))) for piece, part in blocks]
        return _attend(group[0], here, scale)

    context = jnp.moveaxis(jax.lax.map(one, (grouped(query), moving)), 0, 2)
    return context.reshape(B, K, groups * size, *context.shape[4:])[:, :, :M]


def _attend(query: Array, pieces: list[Piece], scale: float | Array) -> Array:
    logits = []
    for key, _, visible in pieces:
        if key.shape[2] == 1:
            products = einsum("BKMGPH,BKCH->BKMGPC", query, key[:, :, 0])
        else:
            products = einsum("BKMGPH,BKMCH->BKMGPC", query, key)
        products = products * jnp.asarray(scale, products.dtype)
        logits.append(jnp.where(visible[:, :, :, None], products, -jnp.inf))
    weights = softmax_or_zero(jnp.concatenate(logits, axis=-1)).astype(query.dtype)
    context: Any = 0
    start = 0
    for _, value, _ in pieces:
        part = weights[..., start : start + value.shape[3]]
        if value.shape[2] == 1:
            here = einsum("BKMGPC,BKCH->BKMGPH", part, value[:, :, 0])
        else:
            here = einsum("BKMGPC,BKMCH->BKMGPH", part, value)
        context, start = context + here, start + value.shape[3]
    return context.astype(query.dtype)
