"""Linear attention, Katharopoulos et al. 2020 (arXiv 2006.16236), equations 5, 7 and 16 to 20:
phi(q_i)^T sum_j phi(k_j) v_j^T / (phi(q_i)^T sum_j phi(k_j)) with phi(x) = elu(x) + 1.

In the causal form, j runs to i. It is a recurrent network whose state is the two sums. It is computed in chunks, or one
position at a time with `linear_attention_step`. There is no scale, because phi is not homogeneous. The released code
adds 1e-6 to the denominator; here nothing is added, and a denominator of 0 gives 0.
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

#: log 1e-6. Products of two smaller features, and their squares, would underflow.
LOW = -14.0


def elu_features(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """elu(x) + 1, equation 7: x + 1 above 0, exp(x) below. In the accumulator's dtype, accurate for very negative x.

    >>> print(elu_features(jnp.array([-2.0, 0.0, 2.0])))  # positive everywhere
    [0.14 1.   3.  ]
    """
    x = x.astype(accumulator(x.dtype))
    return jnp.where(x > 0, x + 1, jnp.exp(jnp.where(x > 0, jnp.zeros_like(x), x)))


def scaled_features(x: Float[Array, "*B H"]) -> tuple[Float[Array, "*B H"], Float[Array, "*B"]]:
    """Returns (features, l), where elu(x) + 1 = features exp(l).

    l is the largest entry of x if that is below `LOW`, else 0, so that the features of vectors with very negative
    entries are near 1. l has no gradient, because it cancels in the attention.
    """
    x = x.astype(accumulator(x.dtype))
    largest = lax.stop_gradient(jnp.max(x, axis=-1, keepdims=True))
    log_scale = jnp.where(largest < LOW, largest, jnp.zeros_like(largest))
    return elu_features(jnp.where(log_scale == 0, x, x - log_scale)), log_scale[..., 0]


def linear_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    *,
    mask: Bool[Array, "B S"] | None = None,
    is_causal: bool = False,
    chunk_size: int = 128,
) -> Float[Array, "B T N Hv"]:
    """Linear attention with time O(T H Hv) and memory O(T + H Hv).

    The causal form adds O(T chunk_size) time and T H Hv / chunk_size memory; T must equal S, and query i attends to
    keys 0 to i. `mask` is True at non-padding keys. A query with no visible key gives 0 with gradient 0. K divides N.
    Raises ValueError naming the argument and the axis.

    >>> query, value = jnp.ones((1, 3, 1, 2)), jnp.array([1.0, 2.0, 6.0]).reshape(1, 3, 1, 1)
    >>> print(linear_attention(query, query, value, is_causal=True).ravel())  # equal keys: means of values so far
    [1.  1.5 3. ]
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
    """Decodes one position of the causal form, equations 16 to 20. `no_sums(B, K, H, Hv)` is the initial state.

    >>> from attention_research.kernels.efficient import no_sums
    >>> sums, one = no_sums(1, 1, 2, 1), jnp.ones((1, 1, 2))
    >>> sums, first = linear_attention_step(sums, one, one, jnp.array([[[1.0]]]))
    >>> sums, second = linear_attention_step(sums, one, one, jnp.array([[[2.0]]]))
    >>> first.item(), second.item()  # equal keys: the mean of the values so far
    (1.0, 1.5)
    """
    check_shapes(query=(query, "B N H"), key=(key, "B K H"), value=(value, "B K Hv"), mask=(mask, "B"))
    query_features, _ = scaled_features(query)
    key_features, log_scale = scaled_features(key)
    sums, context = feature_step(sums, query_features, key_features, log_scale, value, mask)
    return sums, context.astype(query.dtype)
