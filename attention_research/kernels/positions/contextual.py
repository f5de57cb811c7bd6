"""Contextual position encoding (CoPE), Golovneva et al. 2024 (arXiv 2405.18719): logit_ij = q_i k_j scale +
q_i e[p_ij] with p_ij = sum_{j<=m<=i} sigmoid(q_i k_m scale).

The position p_ij counts the keys from j to the query that the query's gates select, so that it can count words or
sentences. It is not an integer: q_i e is interpolated linearly between the two nearest of P learned vectors. Positions
from P - 1 on share the last one. Keys that the query may not attend to are not counted.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.attention.pairs import pair_logits
from attention_research.kernels.precision import einsum
from attention_research.kernels.shapes import check_shapes


def contextual_bias(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    positions: Float[Array, "P H"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    is_causal: bool = False,
    query_offset: int | Int[Array, ""] = 0,
) -> Float[Array, "B N T S"]:
    """q_i e[p_ij] as a bias for the logits, in float32.

    `positions` are the vectors e of all heads. Query i is at position i + `query_offset` of the keys. Other arguments
    are those of `dot_product_attention`. Raises ValueError naming the argument and the axis.

    >>> query, positions = jnp.full((1, 1, 1, 1), 100.0), jnp.arange(5.0)[:, None] / 100
    >>> key = jnp.array([1.0, -1, -1, 1, -1]).reshape(1, 5, 1, 1)  # the gates select keys 0 and 3
    >>> print(contextual_bias(query, key, positions)[0, 0, 0])
    [2. 1. 1. 1. 0.]
    """
    P = check_shapes(query=(query, "B T N H"), key=(key, "B S K H"), positions=(positions, "P H"))["P"]
    if P < 1:
        raise ValueError("positions: axis P of [P H]: expected at least 1, got 0")
    logits, visible = pair_logits(query, key, mask, scale=scale, is_causal=is_causal, query_offset=query_offset)
    gates = jnp.where(visible, jax.nn.sigmoid(logits), jnp.zeros_like(logits))
    place = jnp.minimum(lax.cumsum(gates, axis=3, reverse=True), P - 1)
    below = lax.stop_gradient(jnp.floor(place)).astype(jnp.int32)
    at = einsum("BTNH,PH->BNTP", query, positions.astype(query.dtype))
    low = jnp.take_along_axis(at, below, axis=3)
    high = jnp.take_along_axis(at, jnp.minimum(below + 1, P - 1), axis=3)
    share = place - below.astype(place.dtype)
    return low * (1 - share) + high * share


def contextual_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    positions: Float[Array, "P H"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    is_causal: bool = False,
    query_offset: int | Int[Array, ""] = 0,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """Attention with the bias of `contextual_bias`.

    Other arguments are those of `dot_product_attention`. Raises ValueError naming the argument and the axis.

    >>> x, value = jnp.ones((1, 2, 1, 1)), jnp.eye(2)[None, :, None]  # the result shows the weights
    >>> print(contextual_attention(x, x, value, jnp.zeros((3, 1)))[0, 0, 0])  # without vectors: plain attention
    [0.5 0.5]
    """
    bias = contextual_bias(query, key, positions, mask, scale=scale, is_causal=is_causal, query_offset=query_offset)
    return dot_product_attention(
        query, key, value, bias, mask, scale=scale, is_causal=is_causal, query_offset=query_offset,
        implementation=implementation,
    )  # fmt: skip
