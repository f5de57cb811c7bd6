"""Linear attention, Katharopoulos et al. 2020 (arXiv 2006.16236), equations 5, 7 and 16 to 20:
phi(q_i)^T sum_j phi(k_j) v_j^T / (phi(q_i)^T sum_j phi(k_j)) with phi(x) = elu(x) + 1.

Causal, j runs to i: a recurrent network whose state is the two sums, here computed in chunks, and one position at a
time by `linear_attention_step`. There is no scale: phi is not homogeneous. The released code adds 1e-6 to the
denominator; here a denominator of 0 gives 0 and nothing else is changed.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from attention_research.kernels.efficient.feature_attention import (
    FeatureSums,
    check_heads,
    feature_attention,
    feature_step,
)
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes

#: exp of this is 1e-6; products of two smaller features, and their squares, would underflow.
LOW = -14.0


def elu_features(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """elu(x) + 1, equation 7: x + 1 above 0, exp(x) below; in the accumulator's dtype, exact for very negative x."""
    x = x.astype(accumulator(x.dtype))
    return jnp.where(x > 0, x + 1, jnp.exp(jnp.where(x > 0, jnp.zeros_like(x), x)))


def scaled_features(x: Float[Array, "*B H"]) -> tuple[Float[Array, "*B H"], Float[Array, "*B"]]:
    """(features, l): elu(x) + 1 is features exp(l). l is the largest entry of x where that is below `LOW`, else 0.

    So vectors of very negative entries keep features near 1. No gradient goes through l, which cancels in the
    attention.
    """
    x = x.astype(accumulator(x.dtype))
    largest = lax.stop_gradient(jnp.max(x, axis=-1, keepdims=True))
    log_scale = jnp.where(largest < LOW, largest, jnp.zeros_like(largest))
    return elu_features(jnp.where(log_scale == 0, x, jnp.minimum(x - log_scale, 0))), log_scale[..., 0]


def linear_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    *,
    mask: Bool[Array, "B S"] | None = None,
    is_causal: bool = False,
    chunk_size: int = 128,
) -> Float[Array, "B T N Hv"]:
    """Time O(T H Hv), memory O(T + H Hv); causal, also O(T chunk_size) time for the present and T H Hv / chunk_size.

    `mask` is True at real keys; a query that sees none gives 0 with gradient 0. Causal, T = S and query i sees keys
    0..i. K divides N. Raises ValueError naming the argument and the axis.
    """
    check_heads(query, key, value, mask, is_causal, chunk_size)
    query_features, _ = scaled_features(query)
    key_features, log_scale = scaled_features(key)
    context = feature_attention(query_features, key_features, log_scale, value, mask, is_causal, chunk_size)
    return context.astype(query.dtype)


def linear_attention_step(
    sums: FeatureSums,
    query: Float[Array, "B N H"],
    key: Float[Array, "B K H"],
    value: Float[Array, "B K Hv"],
    *,
    mask: Bool[Array, "B"] | None = None,
) -> tuple[FeatureSums, Float[Array, "B N Hv"]]:
    """Equations 16 to 20: one position of the causal form; `no_sums(B, K, H, Hv)` is the state before the first."""
    check_shapes(query=(query, "B N H"), key=(key, "B K H"), value=(value, "B K Hv"), mask=(mask, "B"))
    query_features, _ = scaled_features(query)
    key_features, log_scale = scaled_features(key)
    sums, context = feature_step(sums, query_features, key_features, log_scale, value, mask)
    return sums, context.astype(query.dtype)
