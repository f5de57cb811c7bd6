"""Attention with relative positions, Shaw, Uszkoreit & Vaswani 2018 (arXiv 1803.02155), equations 3 and 4.

    e_ij = q_i (k_j + a^K_{j-i})^T scale,    z_i = sum_j softmax(e)_ij (v_j + a^V_{j-i}),

with a_d = table[clip(d, -k, k) + k].

A [T S H] tensor is never formed: queries are multiplied by the 2k+1 table rows and the products are shifted into
place; weights are summed into their 2k+1 distances before they meet the value table (the transpose of that shift).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention.arguments import prepare, softmax_or_zero
from attention_research.kernels.precision import accumulator, einsum


def _spread(by_distance: Float[Array, "*B T R"], key_length: int) -> Float[Array, "*B T S"]:
    """by_distance[..., i, clip(j - i, -k, k) + k] for every i, j, by padding and reshaping alone.

    Row i of [T, T+S-1] holds the distances -(T-1)..S-1 in order; read with a row stride one shorter, each row starts
    one distance earlier than the row above: that is the shift j - i.
    """
    *batch, T, R = by_distance.shape
    S, k = key_length, R // 2
    low, high = min(k, T - 1), min(k, S - 1)
    padding = [(0, 0)] * (len(batch) + 1) + [(T - 1 - low, S - 1 - high)]
    row = jnp.pad(by_distance[..., k - low : k + high + 1], padding, mode="edge")
    if T == 1:
        return row
    flat = row.reshape(*batch, T * (T + S - 1))[..., T - 1 :]
    return flat[..., : T * (T + S - 2)].reshape(*batch, T, T + S - 2)[..., :S]


def _spread_at(by_distance: Float[Array, "*B T R"], key_length: int, offset: Array) -> Float[Array, "*B T S"]:
    """The same for queries that start at position `offset`, by a gather: for the few queries of a decoding step."""
    *_, T, R = by_distance.shape
    distance = jnp.arange(key_length, dtype=jnp.int32) - (jnp.arange(T, dtype=jnp.int32)[:, None] + offset)
    index = jnp.clip(distance, -(R // 2), R // 2) + R // 2
    return jnp.take_along_axis(by_distance, jnp.broadcast_to(index, (*by_distance.shape[:-1], key_length)), axis=-1)


def _spreader(key_length: int, offset: int | Array) -> Callable[[Array], Array]:
    if isinstance(offset, int) and offset == 0:
        return lambda by_distance: _spread(by_distance, key_length)
    return lambda by_distance: _spread_at(by_distance, key_length, jnp.asarray(offset, jnp.int32))


def _check_table(name: str, table: Array, width: int) -> None:
    if table.ndim != 2 or table.shape[1] != width or table.shape[0] % 2 == 0:
        raise ValueError(f"{name}: expected [2k+1, {width}], got shape {list(table.shape)}")


def relative_weights(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    key_table: Float[Array, "R H"],
    *,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    scale: float | int | None = None,
    query_offset: int | Int[Array, ""] = 0,
) -> Float[Array, "B N T S"]:
    """softmax(e), equation 4: the weights of `relative_attention`, in float32."""
    arrays, options = prepare(query, key, None, None, mask, scale, False, None, None, None)
    (B, T, N, H), (S, K) = query.shape, key.shape[1:3]
    _check_table("key_table", key_table, H)
    dtype = accumulator(query.dtype)
    heads = query.reshape(B, T, K, N // K, H).transpose(0, 2, 3, 1, 4)
    logits = einsum("BKGTH,BSKH->BKGTS", heads, key)
    to_table = einsum("BKGTH,RH->BKGTR", heads, key_table.astype(query.dtype))
    logits = (logits + _spreader(S, query_offset)(to_table)) * jnp.asarray(options.scale, dtype)
    return softmax_or_zero(logits.reshape(B, N, T, S), arrays.mask)


def relative_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    key_table: Float[Array, "R H"],
    value_table: Float[Array, "P Hv"] | None = None,
    *,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    scale: float | int | None = None,
    query_offset: int | Int[Array, ""] = 0,
) -> Float[Array, "B T N Hv"]:
    """Dot-product attention whose keys and values know their distance from the query; tables have R = 2k+1 rows.

    Row clip(j - i, -k, k) + k is the distance from query i to key j. The tables are shared by the heads, as in the
    paper; `value_table` None leaves equation 3 out (the paper's Table 3: equal BLEU). `scale` None is 1 / sqrt(H).
    `query_offset` is the position of the first query, for cached decoding. Dense in T x S. An empty row is 0 with
    gradient 0. Raises ValueError naming the argument and the axis.
    """
    prepare(query, key, value, None, mask, scale, False, None, None, None)
    (B, T, N, _), (S, K, Hv) = query.shape, value.shape[1:]
    if value_table is not None:  # its clipping distance may differ from the key table's
        _check_table("value_table", value_table, Hv)
    dtype = accumulator(query.dtype)
    spread = _spreader(S, query_offset)
    weights = relative_weights(query, key, key_table, mask=mask, scale=scale, query_offset=query_offset)
    weights = weights.reshape(B, K, N // K, T, S)
    context = einsum("BKGTS,BSKH->BKGTH", weights.astype(value.dtype), value)
    if value_table is not None:
        shape = jax.ShapeDtypeStruct((B, K, N // K, T, value_table.shape[0]), dtype)
        (by_distance,) = jax.linear_transpose(spread, shape)(weights)
        context = context + einsum("BKGTR,RH->BKGTH", by_distance.astype(value.dtype), value_table.astype(value.dtype))
    return context.reshape(B, N, T, Hv).swapaxes(1, 2).astype(query.dtype)
