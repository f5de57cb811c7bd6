"""KERPLE, Chi et al. 2022 (arXiv 2205.09921): logit_ij = q_i k_j - r1 log(1 + r2 |i - j|), or
q_i k_j - r1 |i - j|^r2.

The logarithmic and the power form are kernels of the distance, with r1, r2 > 0 learned by each head; in the power form
r2 is at most 2. The power form with r2 = 1 is ALiBi with the slope r1. The bias is symmetric, so that it serves causal
attention and encoders.
"""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from attention_research.kernels.attention.distances import dense
from attention_research.kernels.integers import as_int32
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes


def kerple_distance_bias(
    r1: Float[Array, "N"],
    r2: Float[Array, "N"],
    query_length: int,
    key_length: int,
    *,
    form: Literal["log", "power"] = "log",
    query_offset: int | Int[Array, ""] = 0,
) -> Float[Array, "N distances"]:
    """The bias by distance, [N, T + S - 1], in float32. Column j - i + T - 1 is for query i and key j.

    `query_offset` is the position of the first query, for cached decoding. Raises ValueError naming the argument.

    >>> kerple_distance_bias(jnp.ones(1), jnp.ones(1), 3, 1, form="power")[0].tolist()  # distances 2, 1, 0
    [-2.0, -1.0, -0.0]
    """
    if form not in ("log", "power"):
        raise ValueError(f"form: expected log or power, got {form!r}")
    offset = as_int32("query_offset", query_offset)
    check_shapes(r1=(r1, "N"), r2=(r2, "N"), query_offset=(offset, ""))
    dtype = accumulator(r1.dtype)
    distance = jnp.abs(jnp.arange(-(query_length - 1), key_length, dtype=jnp.int32) - offset).astype(dtype)
    r1, r2 = r1.astype(dtype)[:, None], r2.astype(dtype)[:, None]
    if form == "log":
        return -r1 * jnp.log1p(r2 * distance)
    logs = jnp.log(jnp.maximum(distance, 1))
    return -r1 * jnp.where(distance > 0, jnp.exp(r2 * logs), jnp.zeros_like(distance))


def kerple_bias(
    r1: Float[Array, "N"],
    r2: Float[Array, "N"],
    query_length: int,
    key_length: int,
    *,
    form: Literal["log", "power"] = "log",
    query_offset: int | Int[Array, ""] = 0,
) -> Float[Array, "1 N T S"]:
    """The bias of every pair of query and key, with the arguments of `kerple_distance_bias`.

    >>> print(kerple_bias(jnp.ones(1), jnp.ones(1), 2, 2)[0, 0])  # -log 2
    [[-0.   -0.69]
     [-0.69 -0.  ]]
    """
    by_distance = kerple_distance_bias(r1, r2, query_length, key_length, form=form, query_offset=query_offset)
    return dense(by_distance, query_length)
