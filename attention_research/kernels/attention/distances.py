"""Attention terms that depend on the distance j - i from query i to key j, computed without an index array [T S]."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int


def shifted(rows: Float[Array, "*B T L"]) -> Float[Array, "*B T S"]:
    """out[..., r, x] = rows[..., r, x + T - 1 - r], L = T + S - 1: each row starts one entry later than the row below.

    It reads rows of length L with stride L - 1, which needs only slices and reshapes.
    """
    *batch, T, L = rows.shape
    if T == 0:
        return jnp.zeros((*batch, 0, L + 1), rows.dtype)
    if T == 1:
        return rows
    flat = rows.reshape(*batch, T * L)[..., T - 1 :]
    return flat[..., : T * (L - 1)].reshape(*batch, T, L - 1)[..., : L - T + 1]


def skewed(by_distance: Float[Array, "L"], rows: int) -> Float[Array, "rows L-rows+1"]:
    """out[r, x] = by_distance[x + rows - 1 - r]: each row starts one distance earlier than the previous row."""
    return shifted(jnp.broadcast_to(by_distance, (rows, by_distance.shape[0])))


def unskewed(scores: Float[Array, "rows X"]) -> Float[Array, "L"]:
    """The transpose of `skewed`: sums along the diagonals."""
    rows, width = scores.shape
    shape = jax.ShapeDtypeStruct((width + rows - 1,), scores.dtype)
    return jax.linear_transpose(lambda x: skewed(x, rows), shape)(scores)[0]


def dense(by_distance: Float[Array, "N L"], query_length: int) -> Float[Array, "1 N T S"]:
    """The dense array of by_distance[n, j - i + T - 1] for all pairs (i, j)."""
    return jax.vmap(lambda x: skewed(x, query_length))(by_distance)[None]


def spread(
    by_distance: Float[Array, "T R"], first: Array | int, onto: Float[Array, "T width"]
) -> Float[Array, "T width"]:
    """onto[r, c] + by_distance[r, clip(c + first - r, -k, k) + k], where key 0 is at distance `first` from row 0.

    Beyond distance k on either side, a row is constant. The band in between, at most T + 2k - 2 wide, is skewed.
    """
    (T, R), width = by_distance.shape, onto.shape[1]
    k, distance = R // 2, _distances(T, width, first)
    if k == 0:
        return onto + by_distance
    if T + 2 * k - 2 > width:
        return onto + jnp.take_along_axis(by_distance, jnp.clip(distance, -k, k) + k, axis=-1)
    onto = onto + jnp.where(distance < 0, by_distance[:, :1], by_distance[:, -1:])
    if k == 1:
        return jnp.where(distance == 0, onto + by_distance[:, 1:2] - by_distance[:, 2:], onto)
    # inside[r, x] is the rest to add at distance x - (k - 1) - r, for |distance| < k, and 0 elsewhere.
    edges = jnp.where(jnp.arange(1 - k, k) < 0, by_distance[:, :1], by_distance[:, -1:])
    band, at, shift = _band(T, k, width, first)
    inside = jnp.pad(by_distance[:, 1:-1] - edges, ((0, 0), (0, T)))
    inside = inside.reshape(-1)[: T * band].reshape(T, band)
    piece = _moved(inside, shift)
    return lax.dynamic_update_slice(onto, lax.dynamic_slice(onto, at, (T, band)) + piece, at)


def gathered(
    scores: Float[Array, "T width"], table_rows: int, first: Array | int, total: Float[Array, "T"]
) -> Float[Array, "T R"]:
    """The transpose of `spread`: sums the scores of each row by clipped distance. `total` holds the sums of the rows.

    The sum of the left edge is the total minus the other sums, because sums over a part of a row are slow on a CPU.
    """
    (T, width), R = scores.shape, table_rows
    k, distance = R // 2, _distances(T, width, first)
    if k == 0:
        return total[:, None]
    if T + 2 * k - 2 > width:
        shape = jax.ShapeDtypeStruct((T, R), scores.dtype)
        take = lambda x: jnp.take_along_axis(x, jnp.clip(distance, -k, k) + k, axis=-1)
        return jax.linear_transpose(take, shape)(scores)[0]
    right = jnp.sum(jnp.where(distance >= k, scores, jnp.zeros_like(scores)), axis=1, keepdims=True)
    if k == 1:
        inside = jnp.sum(jnp.where(distance == 0, scores, jnp.zeros_like(scores)), axis=1, keepdims=True)
    else:
        band, at, shift = _band(T, k, width, first)
        piece = _moved(lax.dynamic_slice(scores, at, (T, band)), -shift)
        inside = jnp.pad(piece.reshape(-1), (0, T)).reshape(T, band + 1)[:, : R - 2]
    left = total[:, None] - right - jnp.sum(inside, axis=1, keepdims=True)
    return jnp.concatenate([left, inside, right], axis=1)


def _distances(rows: int, width: int, first: Array | int) -> Int[Array, "rows width"]:
    columns = jnp.arange(width, dtype=jnp.int32) + jnp.asarray(first, jnp.int32)
    return columns - jnp.arange(rows, dtype=jnp.int32)[:, None]


def _band(rows: int, k: int, width: int, first: Array | int) -> tuple[int, tuple[Array, Array], Array]:
    """Returns (width of the band, its start among the keys, the shift that moved it within the keys)."""
    band = rows + 2 * k - 2
    begin = -(jnp.asarray(first, jnp.int32) + k - 1)
    start = jnp.clip(begin, 0, width - band)
    return band, (jnp.zeros_like(start), start), jnp.clip(start - begin, -band, band)


def _moved(band: Float[Array, "T W"], shift: Array) -> Float[Array, "T W"]:
    """out[r, x] = band[r, x + shift], or 0 outside of the band."""
    T, width = band.shape
    padded = jnp.pad(band, ((0, 0), (width, width)))
    return lax.dynamic_slice(padded, (jnp.zeros_like(shift), shift + width), (T, width))
