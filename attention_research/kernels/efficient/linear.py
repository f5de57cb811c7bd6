"""Linear attention, Katharopoulos et al. 2020 (arXiv 2006.16236), equations 5, 7 and 16 to 20:
phi(q_i)^T sum_j phi(k_j) v_j^T / (phi(q_i)^T sum_j phi(k_j)) with phi(x) = elu(x) + 1.

Causal, j runs to i: a recurrent network whose state is the two sums, here computed in chunks, and one position at a
time by `linear_attention_step`. There is no scale: phi is not homogeneous. The released code adds 1e-6 to the
denominator; here a denominator of 0 gives 0 and nothing else is changed.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.efficient.feature_attention import (
    FeatureSums,
    check_heads,
    feature_attention,
    feature_step,
)
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes


def elu_features(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """elu(x) + 1, equation 7: x + 1 above 0, exp(x) below; in the accumulator's dtype, exact for very negative x."""
    x = x.astype(accumulator(x.dtype))
    return jnp.where(x > 0, x + 1, jnp.exp(jnp.where(x > 0, jnp.zeros_like(x), x)))


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
    key_features = elu_features(key)
    no_scale = jnp.zeros(key.shape[:3], key_features.dtype)
    context = feature_attention(elu_features(query), key_features, no_scale, value, mask, is_causal, chunk_size)
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
    key_features = elu_features(key)
    no_scale = jnp.zeros(key.shape[:2], key_features.dtype)
    sums, context = feature_step(sums, elu_features(query), key_features, no_scale, value, mask)
    return sums, context.astype(query.dtype)
