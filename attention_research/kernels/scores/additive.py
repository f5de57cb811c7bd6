"""Additive scores, Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), appendix A.1.2: e_ij = v^T tanh(W q_i + U k_j).

This is a network with one hidden layer of A units on the concatenated query and key; its first layer is computed as a
sum, hence the name. There is no bias. In the paper, the query is the decoder state *before* the step, s_{i-1}.

The hidden layer [B T S A] is A times larger than the scores. It is computed for one chunk of queries at a time and
recomputed for the gradient, so that it is never kept, also in a decoder that scores one query per step under `scan`.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.scores.arguments import check_scores
from attention_research.kernels.symbolic import expect_numbers, symbolic

#: The default maximum number of elements of the hidden layer of a chunk (16 MiB in float32).
CHUNK_ELEMENTS = 2**22


def additive_scores(
    query: Float[Array, "B T Dq"],
    keys: Float[Array, "B S Dk"],
    query_weight: Float[Array, "A Dq"],
    key_weight: Float[Array, "A Dk"],
    v: Float[Array, "A"],
    *,
    chunk_size: int | None = None,
) -> Float[Array, "B T S"]:
    """v^T tanh(W q_i + U k_j) for all queries and keys, in float32.

    `chunk_size` queries are processed at a time; None means as many as `CHUNK_ELEMENTS` allows. Raises ValueError
    naming the argument and the axis.

    >>> query, keys = jnp.ones((1, 2, 3)), jnp.ones((1, 5, 4))
    >>> additive_scores(query, keys, jnp.ones((6, 3)), jnp.ones((6, 4)), jnp.ones(6)).shape
    (1, 2, 5)
    """
    check_scores(
        (query, "B T Dq"), (keys, "B S Dk"), query_weight=(query_weight, "A Dq"), key_weight=(key_weight, "A Dk"),
        v=(v, "A"),
    )  # fmt: skip
    query = einsum("BTD,AD->BTA", query, query_weight.astype(query.dtype))
    keys = einsum("BSD,AD->BSA", keys, key_weight.astype(keys.dtype))
    return projected_additive_scores(query, keys, v, chunk_size=chunk_size)


def projected_additive_scores(
    query: Float[Array, "B T A"], keys: Float[Array, "B S A"], v: Float[Array, "A"], *, chunk_size: int | None = None
) -> Float[Array, "B T S"]:
    """v^T tanh(q_i + k_j) for queries and keys that are already projected.

    It is for decoders, in which the keys U h_j of a sentence are the same at every step and are projected only once.
    Raises ValueError naming the argument and the axis.

    >>> query, keys = jnp.array([[[0.0]]]), jnp.array([[[-9.0], [0.0], [9.0]]])
    >>> print(projected_additive_scores(query, keys, jnp.array([2.0])))  # the score is bounded by |v|
    [[[-2.  0.  2.]]]
    """
    sizes = check_scores((query, "B T A"), (keys, "B S A"), v=(v, "A"))
    B, T, A, S = (sizes[axis] for axis in "BTAS")
    if chunk_size is not None:
        expect_numbers("chunk_size", T=T)
    elif symbolic(B, T, S):
        chunk_size = T
    else:
        chunk_size = max(1, CHUNK_ELEMENTS // max(1, B * S * A))
    if not symbolic(T) and chunk_size < 1:
        raise ValueError(f"chunk_size: expected at least 1, got {chunk_size}")
    dtype = accumulator(query.dtype)
    query, keys, v = query.astype(dtype), keys.astype(dtype), v.astype(dtype)

    @jax.checkpoint
    def scores(query: Array) -> Array:
        return jnp.einsum("BTSA,A->BTS", jnp.tanh(query[:, :, None] + keys[:, None]), v)

    if symbolic(T) or T <= chunk_size:
        return scores(query)
    count = math.ceil(T / chunk_size)
    rows = math.ceil(T / count)
    padded = jnp.pad(query, ((0, 0), (0, count * rows - T), (0, 0))).reshape(B, count, rows, A)
    return lax.map(scores, padded.swapaxes(0, 1)).swapaxes(0, 1).reshape(B, count * rows, S)[:, :T]
