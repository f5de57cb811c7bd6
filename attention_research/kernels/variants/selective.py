"""Selective attention, Leviathan, Kalman & Matias 2024 (arXiv 2410.02703), section 3: softmax(Q K^T scale - F) V with
F_ij = sum_{m<i} S_mj, and S the positive part of the logits of the first head.

A token reduces the weight of an earlier token for all tokens after itself. It does not reduce its own weight, nor that
of the first token of its example: S is 0 on the diagonal and at the first visible key. There are no parameters. F is a
sum over all earlier queries, so that a decoding step needs the sum [B S] so far.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.attention.pairs import pair_logits


class Selection(NamedTuple):
    """The bias -F [B 1 T S] in float32, and the sums over all queries so far [B S], for the queries that follow."""

    bias: Float[Array, "B 1 T S"]
    sums: Float[Array, "B S"]


def selective_bias(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    sums: Float[Array, "B S"] | None = None,
    *,
    scale: Scale = None,
    query_offset: int | Int[Array, ""] = 0,
) -> Selection:
    """-F as a bias for the logits of all heads of causal attention.

    `sums` is F for the first query: what the queries before it have selected. Query i is at position i + `query_offset`
    of the keys. Raises ValueError naming the argument and the axis.

    >>> x = jnp.ones((1, 4, 1, 1))
    >>> print(0 - selective_bias(x, x).bias[0, 0])  # every token selects the tokens before it, except the first
    [[0. 0. 0. 0.]
     [0. 0. 0. 0.]
     [0. 0. 0. 0.]
     [0. 1. 0. 0.]]
    """
    one = mask if mask is None else mask[:, :1]
    logits, visible = pair_logits(
        query[:, :, :1], key[:, :, :1], one, scale=scale, is_causal=True, query_offset=query_offset
    )  # fmt: skip
    B, _, T, S = logits.shape
    rows = jnp.arange(T, dtype=jnp.int32)[:, None] + jnp.asarray(query_offset, jnp.int32)
    columns = jnp.arange(S, dtype=jnp.int32)
    real = jnp.any(visible & (columns == rows), axis=3, keepdims=True)  # a query of padding selects nothing
    earlier = visible & real & (columns < rows)
    first = lax.cumsum(visible.astype(jnp.int32), axis=3) <= 1
    selected = jnp.where(earlier & ~first, jax.nn.relu(logits), jnp.zeros_like(logits))[:, 0]
    start = jnp.zeros((B, 1, S), selected.dtype) if sums is None else sums.astype(selected.dtype)[:, None]
    total = lax.cumsum(jnp.concatenate([start, selected], axis=1), axis=1)
    return Selection(-total[:, None, :-1], total[:, -1])


def selective_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    sums: Float[Array, "B S"] | None = None,
    *,
    scale: Scale = None,
    query_offset: int | Int[Array, ""] = 0,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """Causal attention in which tokens reduce the logits of earlier tokens for later ones (`selective_bias`).

    Other arguments are those of `dot_product_attention`. Raises ValueError naming the argument and the axis.

    >>> x, value = jnp.ones((1, 4, 1, 1)), jnp.eye(4)[None, :, None]  # the result shows the weights
    >>> print(selective_attention(x, x, value)[0, 3, 0])  # the third token reduced the second
    [0.3  0.11 0.3  0.3 ]
    """
    bias, _ = selective_bias(query, key, mask, sums, scale=scale, query_offset=query_offset)
    return dot_product_attention(
        query, key, value, bias, mask, scale=scale, is_causal=True, query_offset=query_offset,
        implementation=implementation,
    )  # fmt: skip
