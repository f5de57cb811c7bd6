"""Relative attention with segment memory, Dai et al. 2019 (arXiv 1901.02860), section 3.3: logit_ij = (q_i + u)^T k_j +
(q_i + v)^T r_{i-j}.

Keys and values come from the hidden states [memory; current], where the memory has no gradient (`extend_with_memory`).
r_d = W_R R_d is row d of `sinusoidal_positions(S, D)` times W_R, [S N H], for the distance d = i - j. u and v have one
vector per head. The attention is causal: query i of T queries is at position S - T + i of the S keys and attends to
keys up to this position. In the released code, the sine columns of R come first, which only permutes W_R. A [T S H]
tensor is never formed: queries are multiplied by the S rows r_d, and the products are shifted into place.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention.arguments import Scale, prepare, softmax_or_zero
from attention_research.kernels.attention.distances import shifted
from attention_research.kernels.integers import as_int32
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.symbolic import expect_numbers


def extend_with_memory(memory: Float[Array, "B M D"], x: Float[Array, "B T D"]) -> Float[Array, "B S D"]:
    """[memory; x], S = M + T: the hidden states for the keys and values of a layer. The memory has no gradient.

    >>> memory, x = jnp.ones((1, 4, 2)), jnp.ones((1, 3, 2))
    >>> extend_with_memory(memory, x).shape
    (1, 7, 2)
    """
    check_shapes(memory=(memory, "B M D"), x=(x, "B T D"))
    return jnp.concatenate([jax.lax.stop_gradient(memory).astype(x.dtype), x], axis=1)


def next_memory(
    memory: Float[Array, "B M D"], x: Float[Array, "B T D"], *, length: int | None = None
) -> Float[Array, "B L D"]:
    """The last `length` (None: M) hidden states of [memory; x], or all if there are fewer, for the next segment.

    >>> memory, x = jnp.arange(3.0).reshape(1, 3, 1), jnp.arange(3.0, 5.0).reshape(1, 2, 1)
    >>> next_memory(memory, x).ravel().tolist()  # as long as before
    [2.0, 3.0, 4.0]
    """
    both = jax.lax.stop_gradient(extend_with_memory(memory, x))
    length = memory.shape[1] if length is None else length
    return both[:, max(both.shape[1] - length, 0) :]


def transformer_xl_weights(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    relative_key: Float[Array, "S N H"],
    content_bias: Float[Array, "N H"],
    position_bias: Float[Array, "N H"],
    *,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    scale: Scale = None,
    query_offset: int | Int[Array, ""] | None = None,
) -> Float[Array, "B N T S"]:
    """The weights of `transformer_xl_attention`: the softmax of the logits over the visible keys, in float32.

    >>> query, key = jnp.ones((1, 2, 1, 4)), jnp.ones((1, 4, 1, 4))  # 2 of 4 keys are memory
    >>> print(transformer_xl_weights(query, key, jnp.ones((4, 1, 4)), jnp.zeros((1, 4)), jnp.zeros((1, 4)))[0, 0])
    [[0.33 0.33 0.33 0.  ]
     [0.25 0.25 0.25 0.25]]
    """
    arrays, options = prepare(query, key, None, None, mask, scale, False, None, None, None)
    factor = scale if isinstance(scale, jax.Array) else options.scale  # it also multiplies the biases
    (B, T, N, H), (S, K) = query.shape, key.shape[1:3]
    check_shapes(
        query=(query, "B T N H"),
        key=(key, "B S K H"),
        relative_key=(relative_key, "S N H"),
        content_bias=(content_bias, "N H"),
        position_bias=(position_bias, "N H"),
    )
    expect_numbers("transformer_xl_attention", T=T, S=S)
    if query_offset is None and S < T:
        raise ValueError(f"key: axis S of [B S K H]: expected at least the query's {T}, got {S}")
    if query_offset is not None:
        query_offset = as_int32("query_offset", query_offset)
    if T == 0 or S == 0:
        return jnp.zeros((B, N, T, S), accumulator(query.dtype))
    dtype = query.dtype
    to_key = (query + content_bias.astype(dtype)).reshape(B, T, K, N // K, H)
    content = einsum("BTKGH,BSKH->BKGTS", to_key, key).reshape(B, N, T, S)
    farthest_first = relative_key[::-1].astype(dtype)
    by_distance = einsum("BTNH,SNH->BNTS", query + position_bias.astype(dtype), farthest_first)
    logits = (content + _shift(by_distance, query_offset)) * jnp.asarray(factor, accumulator(dtype))
    row = jnp.arange(T, dtype=jnp.int32)[:, None] + jnp.asarray(
        S - T if query_offset is None else query_offset, jnp.int32
    )
    visible = (jnp.arange(S, dtype=jnp.int32) <= row)[None, None]
    return softmax_or_zero(logits, visible if arrays.mask is None else visible & arrays.mask)


def transformer_xl_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    relative_key: Float[Array, "S N H"],
    content_bias: Float[Array, "N H"],
    position_bias: Float[Array, "N H"],
    *,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    scale: Scale = None,
    query_offset: int | Int[Array, ""] | None = None,
) -> Float[Array, "B T N Hv"]:
    """Causal attention by content and distance over S = memory + T keys. `scale` None means 1 / sqrt(H).

    `content_bias` is u and `position_bias` is v. `query_offset` is the position of the first query among the keys
    (None: the queries are the last T positions), for a cache that is not yet full. Memory is dense in T x S. A query
    with no visible key gives 0 with gradient 0. Raises ValueError naming the argument and the axis.

    >>> query, key = jnp.ones((1, 2, 1, 4)), jnp.ones((1, 5, 1, 4))  # 3 of 5 keys are memory
    >>> relative_key, bias = jnp.ones((5, 1, 4)), jnp.zeros((1, 4))
    >>> transformer_xl_attention(query, key, key, relative_key, bias, bias).shape
    (1, 2, 1, 4)
    """
    prepare(query, key, value, None, mask, scale, False, None, None, None)
    (B, T, N, _), (S, K, Hv) = query.shape, value.shape[1:]
    weights = transformer_xl_weights(
        query, key, relative_key, content_bias, position_bias, mask=mask, scale=scale, query_offset=query_offset
    )
    weights = weights.reshape(B, K, N // K, T, S).astype(value.dtype)
    context = einsum("BKGTS,BSKH->BKGTH", weights, value)
    return context.reshape(B, N, T, Hv).swapaxes(1, 2).astype(query.dtype)


def _shift(by_distance: Float[Array, "*B T S"], offset: int | Array | None) -> Float[Array, "*B T S"]:
    """out[i, j] is the column of distance offset + i - j. Columns hold distances S - 1 to 0; others are undefined.

    If the queries are the last T positions, this is column j + T - 1 - i: the padded rows are read with a stride that
    is shorter by one, so that each row starts one column before the previous row.
    """
    *batch, T, S = by_distance.shape
    if offset is None:
        return shifted(jnp.pad(by_distance, [(0, 0)] * (len(batch) + 1) + [(0, T - 1)]))
    key, query = jnp.arange(S, dtype=jnp.int32), jnp.arange(T, dtype=jnp.int32)[:, None]
    column = jnp.clip(key + (S - 1) - query - jnp.asarray(offset, jnp.int32), 0, S - 1)
    return jnp.take_along_axis(by_distance, jnp.broadcast_to(column, by_distance.shape), axis=-1)
