"""Terms of attention that depend on the distance j - i from query i to key j, laid out without a [T S] matrix."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int


def skewed(by_distance: Float[Array, "L"], rows: int) -> Float[Array, "rows L-rows+1"]:
    """out[r, x] = by_distance[x + rows - 1 - r]: row after row starts one distance earlier.

    Rows of L read with a stride one shorter: padding and reshaping alone.
    """
    if rows == 1:
        return by_distance[None]
    length = by_distance.shape[0]
    flat = jnp.broadcast_to(by_distance, (rows, length)).reshape(-1)[rows - 1 :]
    return flat[: rows * (length - 1)].reshape(rows, length - 1)[:, : length - rows + 1]


def unskewed(scores: Float[Array, "rows X"]) -> Float[Array, "L"]:
    """The transpose of `skewed`: the sums along its diagonals."""
    rows, width = scores.shape
    shape = jax.ShapeDtypeStruct((width + rows - 1,), scores.dtype)
    return jax.linear_transpose(lambda x: skewed(x, rows), shape)(scores)[0]


def dense(by_distance: Float[Array, "N L"], query_length: int) -> Float[Array, "1 N T S"]:
    """by_distance[n, j - i + T - 1] for every pair."""
    return jax.vmap(lambda x: skewed(x, query_length))(by_distance)[None]


def spread(by_distance: Float[Array, "T R"], width: int, first: Array | int) -> Float[Array, "T width"]:
    """by_distance[r, clip(c + first - r, -k, k) + k] for `width` keys of which key 0 is at distance `first` from row 0.

    Beyond k on either side a row is constant; the band between, at most T + 2k - 2 wide, is skewed into place.
    """
    T, R = by_distance.shape
    k, rows = R // 2, jnp.arange(T, dtype=jnp.int32)[:, None]
    first = jnp.asarray(first, jnp.int32)
    distance = jnp.arange(width, dtype=jnp.int32) + first - rows
    band = T + 2 * k - 2
    if k == 0:
        return jnp.broadcast_to(by_distance, (T, width))
    if band > width:
        return jnp.take_along_axis(by_distance, jnp.clip(distance, -k, k) + k, axis=-1)
    outside = jnp.where(distance < 0, by_distance[:, :1], by_distance[:, -1:])
    if k == 1:
        return jnp.where(distance == 0, by_distance[:, 1:2], outside)
    # inside[r, x] is the difference to `outside` at distance x - (k - 1) - r, for |distance| < k, and 0 elsewhere.
    edges = jnp.where(jnp.arange(1 - k, k) < 0, by_distance[:, :1], by_distance[:, -1:])
    inside = jnp.pad(by_distance[:, 1:-1] - edges, ((0, 0), (0, T)))
    inside = inside.reshape(-1)[: T * (R - 2 + T - 1)].reshape(T, R - 2 + T - 1)
    # The band begins at key -(first + k - 1); where that is not among the keys, it is moved and shifted back.
    begin = -(first + k - 1)
    at = jnp.clip(begin, 0, width - band)
    shift = jnp.clip(at - begin, -band, band)
    zero = jnp.zeros_like(shift)
    piece = lax.dynamic_slice(jnp.pad(inside, ((0, 0), (band, band))), (zero, shift + band), (T, band))
    return lax.dynamic_update_slice(outside, lax.dynamic_slice(outside, (zero, at), (T, band)) + piece, (zero, at))


def gathered(scores: Float[Array, "T width"], table_rows: int, first: Array | Int[Array, ""]) -> Float[Array, "T R"]:
    """The transpose of `spread`: each row's scores summed by their clipped distance."""
    shape = jax.ShapeDtypeStruct((scores.shape[0], table_rows), scores.dtype)
    return jax.linear_transpose(lambda x: spread(x, scores.shape[1], first), shape)(scores)[0]
