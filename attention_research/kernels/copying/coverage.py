"""Coverage, See, Liu & Manning 2017 (arXiv 1704.04368), equations 10 to 12:
c^t = sum_{t' < t} a^{t'}, e^t_i = v^T tanh(W_h h_i + W_s s_t + w_c c^t_i + b), a^t = softmax(e^t),
loss_t = sum_i min(a^t_i, c^t_i).

The weights of a step depend on the weights of all earlier steps, so that the steps are computed in a scan. The released
code applies the padding mask after the softmax and renormalizes, which gives the same result. It omits the coverage
term at the first step, where c is 0. In the paper, the loss has weight 1 and is used only at the end of training.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import softmax_or_zero
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes


def coverage_attention(
    query: Float[Array, "B T Dq"],
    keys: Float[Array, "B S Dk"],
    query_weight: Float[Array, "A Dq"],
    key_weight: Float[Array, "A Dk"],
    coverage_weight: Float[Array, "A"],
    v: Float[Array, "A"],
    bias: Float[Array, "A"] | None = None,
    *,
    mask: Bool[Array, "B S"] | None = None,
    coverage: Float[Array, "B S"] | None = None,
) -> tuple[Float[Array, "B T S"], Float[Array, "B T S"]]:
    """Returns (weights a, coverage c *before* each step), both in float32, computed by a scan over the queries.

    The argument `coverage` is the coverage before the first query (None: 0). A decoder that needs the context to
    compute its next query calls this function with T = 1 and passes c + a to the next call. `mask` is True at
    non-padding keys; without such keys, weights and coverage are 0. A step takes O(S A) memory. Raises ValueError
    naming the axis.

    >>> weights, coverage = coverage_attention(
    ...     jnp.ones((1, 2, 3)), jnp.ones((1, 4, 5)), jnp.ones((6, 3)), jnp.ones((6, 5)), jnp.ones(6), jnp.ones(6)
    ... )
    >>> print(coverage[0])  # nothing before the first step, its weights before the second
    [[0.   0.   0.   0.  ]
     [0.25 0.25 0.25 0.25]]
    """
    check_shapes(
        query=(query, "B T Dq"), keys=(keys, "B S Dk"), query_weight=(query_weight, "A Dq"),
        key_weight=(key_weight, "A Dk"), coverage_weight=(coverage_weight, "A"), v=(v, "A"), bias=(bias, "A"),
        mask=(mask, "B S"), coverage=(coverage, "B S"),
    )  # fmt: skip
    dtype = accumulator(query.dtype)
    from_query = einsum("BTD,AD->TBA", query, query_weight.astype(query.dtype))
    if bias is not None:
        from_query = from_query + bias.astype(dtype)
    from_key = einsum("BSD,AD->BSA", keys, key_weight.astype(keys.dtype))
    by_coverage, v = coverage_weight.astype(dtype), v.astype(dtype)

    def step(covered: Array, from_query: Array) -> tuple[Array, tuple[Array, Array]]:
        hidden = jnp.tanh(from_key + from_query[:, None] + by_coverage * covered[..., None])
        weights = softmax_or_zero(jnp.einsum("BSA,A->BS", hidden, v), mask)
        return covered + weights, (weights, covered)

    first = jnp.zeros(keys.shape[:2], dtype) if coverage is None else coverage.astype(dtype)
    _, (weights, covered) = jax.lax.scan(step, first, from_query)
    return weights.swapaxes(0, 1), covered.swapaxes(0, 1)


def coverage_vectors(weights: Float[Array, "B T S"]) -> Float[Array, "B T S"]:
    """c^t = sum of a^{t'} over t' < t, equation 10, in float32; 0 at the first step. Raises ValueError for the rank.

    >>> weights = jnp.array([[[1.0, 0.0], [0.75, 0.25], [0.0, 1.0]]])
    >>> coverage_vectors(weights).tolist()
    [[[0.0, 0.0], [1.0, 0.0], [1.75, 0.25]]]
    """
    check_shapes(weights=(weights, "B T S"))
    weights = weights.astype(accumulator(weights.dtype))
    if weights.shape[1] == 0:
        return weights
    return jnp.cumsum(jnp.pad(weights[:, :-1], ((0, 0), (1, 0), (0, 0))), axis=1)


def coverage_loss(weights: Float[Array, "B T S"], coverage: Float[Array, "B T S"]) -> Float[Array, "B T"]:
    """sum_i min(a_i, c_i) of each step, equation 12, in float32. It is at most 1. Raises ValueError naming the axis.

    >>> weights = jnp.array([[[1.0, 0.0], [0.75, 0.25]]])  # both steps look at position 0
    >>> coverage_loss(weights, coverage_vectors(weights)).tolist()
    [[0.0, 0.75]]
    """
    check_shapes(weights=(weights, "B T S"), coverage=(coverage, "B T S"))
    dtype = accumulator(weights.dtype)
    return jnp.sum(jnp.minimum(weights.astype(dtype), coverage.astype(dtype)), axis=-1)
