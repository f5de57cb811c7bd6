"""Attention with relative positions, Shaw, Uszkoreit & Vaswani 2018 (arXiv 1803.02155), equations 3 and 4: z_i = sum_j
softmax(e)_ij (v_j + a^V_{j-i}), e_ij = q_i (k_j + a^K_{j-i})^T scale, a_d = table[clip(d, -k, k) + k].

A [T S H] tensor is never formed. Queries are multiplied by the 2k+1 rows of the key table, and the products are shifted
into place. Weights are summed by distance (2k+1 sums, the transpose of that shift) before the product with the value
table. The blockwise implementation does the same for one block of queries at a time, without a [T S] matrix.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention import blockwise
from attention_research.kernels.attention.api import prefers_blocks
from attention_research.kernels.attention.arguments import (
    Arrays,
    Options,
    Scale,
    prepare,
    softmax_or_zero,
    visible_keys,
)
from attention_research.kernels.attention.distances import shifted
from attention_research.kernels.integers import as_int32
from attention_research.kernels.platforms import PLATFORMS, home_platform, per_platform
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.symbolic import symbolic


def _spread(by_distance: Float[Array, "*B T R"], key_length: int) -> Float[Array, "*B T S"]:
    """by_distance[..., i, clip(j - i, -k, k) + k] for all i, j: padded to all T+S-1 distances, then shifted."""
    *batch, T, R = by_distance.shape
    S, k = key_length, R // 2
    low, high = min(k, T - 1), min(k, S - 1)
    padding = [(0, 0)] * (len(batch) + 1) + [(T - 1 - low, S - 1 - high)]
    return shifted(jnp.pad(by_distance[..., k - low : k + high + 1], padding, mode="edge"))


def _spread_at(by_distance: Float[Array, "*B T R"], key_length: int, offset: Array) -> Float[Array, "*B T S"]:
    """`_spread` for queries that start at position `offset`, as a gather, for decoding steps and symbolic lengths."""
    *_, T, R = by_distance.shape
    distance = jnp.arange(key_length, dtype=jnp.int32) - (jnp.arange(T, dtype=jnp.int32)[:, None] + offset)
    index = jnp.clip(distance, -(R // 2), R // 2) + R // 2
    return jnp.take_along_axis(by_distance, jnp.broadcast_to(index, (*by_distance.shape[:-1], key_length)), axis=-1)


def _spreader(key_length: int, offset: int | Array) -> Callable[[Array], Array]:
    if isinstance(offset, int) and offset == 0 and not symbolic(key_length):
        return lambda by_distance: _spread(by_distance, key_length)
    return lambda by_distance: _spread_at(by_distance, key_length, as_int32("query_offset", offset))


def _check_table(name: str, table: Array, width: int) -> None:
    if table.ndim != 2 or table.shape[1] != width or table.shape[0] % 2 == 0:
        raise ValueError(f"{name}: expected [2k+1, {width}], got shape {list(table.shape)}")


def relative_weights(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    key_table: Float[Array, "R H"],
    *,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    scale: Scale = None,
    is_causal: bool = False,
    query_offset: int | Int[Array, ""] = 0,
) -> Float[Array, "B N T S"]:
    """The weights softmax(e) of `relative_attention`, equation 4, in float32.

    >>> x, table = jnp.ones((1, 3, 1, 4)), jnp.zeros((3, 4)).at[0].set(20.0)  # distance -1 and less is preferred
    >>> print(relative_weights(x, x, table)[0, 0])
    [[0.33 0.33 0.33]
     [1.   0.   0.  ]
     [0.5  0.5  0.  ]]
    """
    arrays, options = prepare(query, key, None, None, mask, scale, is_causal, None, None, None)
    _check_table("key_table", key_table, query.shape[-1])
    return _weights(arrays._replace(key_table=key_table), options, _spreader(key.shape[1], query_offset))


def relative_logits(
    query: Float[Array, "B T N H"],
    key_table: Float[Array, "R H"],
    key_length: int,
    *,
    scale: Scale = None,
    query_offset: int | Int[Array, ""] = 0,
) -> Float[Array, "B N T S"]:
    """The term q_i a_(j-i) scale of equation 4, to be added to the logits of `key_length` keys.

    >>> print(relative_logits(jnp.ones((1, 2, 1, 1)), jnp.array([[3.0], [0.0], [5.0]]), 3)[0, 0])
    [[0. 5. 5.]
     [3. 0. 5.]]
    """
    B, T, N, H = query.shape
    _check_table("key_table", key_table, H)
    if T == 0 or key_length == 0:
        return jnp.zeros((B, N, T, key_length), accumulator(query.dtype))
    to_table = einsum("BTNH,RH->BNTR", query, key_table.astype(query.dtype))
    logits = _spreader(key_length, query_offset)(to_table)
    return logits * jnp.asarray(H**-0.5 if scale is None else scale, logits.dtype)


def _weights(arrays: Arrays, options: Options, spread: Callable[[Array], Array]) -> Float[Array, "B N T S"]:
    query, key = arrays.query, arrays.key
    (B, T, N, H), (S, K) = query.shape, key.shape[1:3]
    if T == 0 or S == 0:
        return jnp.zeros((B, N, T, S), accumulator(query.dtype))
    heads = query.reshape(B, T, K, N // K, H).transpose(0, 2, 3, 1, 4)
    logits = einsum("BKGTH,BSKH->BKGTS", heads, key)
    assert arrays.key_table is not None
    to_table = einsum("BKGTH,RH->BKGTR", heads, arrays.key_table.astype(query.dtype))
    logits = (logits + spread(to_table)) * jnp.asarray(options.scale, logits.dtype)
    return softmax_or_zero(logits.reshape(B, N, T, S), visible_keys(arrays, options))


def relative_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    key_table: Float[Array, "R H"],
    value_table: Float[Array, "P Hv"] | None = None,
    *,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    scale: Scale = None,
    is_causal: bool = False,
    query_offset: int | Int[Array, ""] = 0,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """Dot-product attention with relative position vectors for keys and values, from tables with R = 2k+1 rows.

    Row clip(j - i, -k, k) + k is for the distance from query i to key j. All heads share the tables, as in the paper.
    `value_table` None omits the vectors of equation 3 (equal BLEU in the paper's Table 3). `scale` None means
    1 / sqrt(H). `query_offset` is the position of the first query, for cached decoding; `is_causal` does not take it
    into account. A query with no visible key gives 0 with gradient 0. `implementation` is "reference" (dense in T x S),
    "blockwise" (memory linear in S, without offset), or None, which chooses blocks if `dot_product_attention` would.
    Raises ValueError naming the argument and the axis.

    >>> x, value = jnp.ones((1, 3, 1, 4)), jnp.eye(3)[None, :, None]  # the result shows the weights
    >>> table = jnp.zeros((3, 4)).at[2].set(20.0)  # distances -1, 0 and 1, clipped: a key to the right is preferred
    >>> print(relative_attention(x, x, value, table)[0, :, 0])
    [[0.   0.5  0.5 ]
     [0.   0.   1.  ]
     [0.33 0.33 0.33]]
    """
    arrays, options = prepare(query, key, value, None, mask, scale, is_causal, None, None, None)
    _check_table("key_table", key_table, query.shape[-1])
    if value_table is not None:  # its clipping distance may differ from that of the key table
        _check_table("value_table", value_table, value.shape[-1])
    arrays = arrays._replace(key_table=key_table, value_table=value_table)
    in_blocks = {name: _in_blocks(implementation, arrays, query_offset, name) for name in (home_platform(), *PLATFORMS)}
    if not any(in_blocks.values()):
        return attend_by_distance(arrays, options, _spreader(key.shape[1], query_offset))

    def attend(platform: str, arrays: Arrays) -> Array:
        if in_blocks[platform]:
            return blockwise.attend(arrays, options)
        return attend_by_distance(arrays, options, _spreader(arrays.key.shape[1], 0))

    if all(in_blocks.values()):
        return attend(home_platform(), arrays)
    return per_platform(attend, arrays)


def attend_by_distance(arrays: Arrays, options: Options, spread: Callable[[Array], Array]) -> Float[Array, "B T N Hv"]:
    """Equations 3 and 4, dense, for any linear map `spread` from [... T R] by table row to [... T S] by key."""
    query, value, value_table = arrays.query, arrays.value, arrays.value_table
    (B, T, N, _), (S, K, Hv) = query.shape, value.shape[1:]
    if T == 0 or S == 0:
        return jnp.zeros((B, T, N, Hv), query.dtype)
    weights = _weights(arrays, options, spread).reshape(B, K, N // K, T, S)
    context = einsum("BKGTS,BSKH->BKGTH", weights.astype(value.dtype), value)
    if value_table is not None:
        shape = jax.ShapeDtypeStruct((B, K, N // K, T, value_table.shape[0]), weights.dtype)
        (by_row,) = jax.linear_transpose(spread, shape)(weights)
        context = context + einsum("BKGTR,RH->BKGTH", by_row.astype(value.dtype), value_table.astype(value.dtype))
    return context.reshape(B, N, T, Hv).swapaxes(1, 2).astype(query.dtype)


def _in_blocks(implementation: str | None, arrays: Arrays, offset: int | Array, platform: str) -> bool:
    """Whether to use blocks. Raises ValueError if the implementation is unknown or does not support the offset."""
    whole = isinstance(offset, int) and offset == 0
    if implementation not in (None, "reference", "blockwise"):
        raise ValueError(f"implementation: expected None, reference or blockwise, got {implementation!r}")
    if implementation is None:
        return whole and prefers_blocks(arrays, platform)
    if implementation == "blockwise" and not whole:
        raise ValueError("implementation='blockwise': query_offset: expected 0; decoding steps are dense")
    return implementation == "blockwise"
