"""Differential attention, Ye et al. 2024 (arXiv 2410.05258), equations 1 to 3: (A1 - lambda A2) V.

A1 = softmax(Q1 K1^T scale), A2 = softmax(Q2 K2^T scale), and lambda = exp(q1 k1) - exp(q2 k2) + lambda_init, from four
learned vectors that the heads of a layer share. The output of each head is normalized by its root mean square and
multiplied by 1 - lambda_init. As in the released code, the norm has epsilon 1e-5 and a gain [Hv] that the heads share,
and the values are as wide as both queries together (Hv = 2 H, but other widths work too). A pair of queries is [2 H] of
a head (heads 2 n and 2 n + 1 in the code).
"""

from __future__ import annotations

import math

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.precision import accumulator
from attention_research.kernels.rms_norm import rms_norm
from attention_research.kernels.shapes import check_shapes

#: The upper bound of q k. The squares of exp(40) times the values in the norm are still finite.
MOST = 40.0


def differential_lambda_init(layer: int | Int[Array, ""]) -> float | Float[Array, ""]:
    """0.8 - 0.6 exp(-0.3 layer), where layers count from 0 (l - 1 in the paper). `layer` may be traced.

    >>> round(differential_lambda_init(0), 6)
    0.2
    """
    exp, at = (math.exp, layer) if isinstance(layer, int) else (jnp.exp, layer.astype(jnp.float32))
    return 0.8 - 0.6 * exp(-0.3 * at)


def differential_lambda(
    lambda_query: Float[Array, "2 H"], lambda_key: Float[Array, "2 H"], *, lambda_init: float | Float[Array, ""]
) -> Float[Array, ""]:
    """exp(q1 k1) - exp(q2 k2) + lambda_init, equation 2, in float32. Products above 40 count as 40, with gradient 0.

    >>> print(differential_lambda(jnp.zeros((2, 4)), jnp.zeros((2, 4)), lambda_init=0.2))  # exp(0) - exp(0) + 0.2
    0.2
    """
    check_shapes(lambda_query=(lambda_query, "2 H"), lambda_key=(lambda_key, "2 H"))
    dtype = accumulator(lambda_query.dtype)
    products = jnp.sum(lambda_query.astype(dtype) * lambda_key.astype(dtype), axis=-1)
    first, second = jnp.exp(jnp.minimum(products, MOST))
    return first - second + jnp.asarray(lambda_init, dtype)


def differential_attention(
    query: Float[Array, "B T N 2 H"],
    key: Float[Array, "B S K 2 H"],
    value: Float[Array, "B S K Hv"],
    lambda_query: Float[Array, "2 H"],
    lambda_key: Float[Array, "2 H"],
    gain: Float[Array, "Hv"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    lambda_init: float | Float[Array, ""],
    epsilon: float = 1e-5,
    scale: Scale = None,
    is_causal: bool = False,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """(1 - lambda_init) RMSNorm(A1 V - lambda A2 V) gain for each head.

    A1 V and A2 V are computed by `dot_product_attention`, which also takes the other arguments. A query with no visible
    key gives 0 with gradient 0. Raises ValueError naming the argument and the axis.

    >>> query, key, value = jnp.ones((1, 3, 2, 2, 4)), jnp.ones((1, 3, 2, 2, 4)), jnp.ones((1, 3, 2, 8))
    >>> vectors, gain = jnp.zeros((2, 4)), jnp.ones(8)
    >>> differential_attention(query, key, value, vectors, vectors, gain, lambda_init=0.2).shape
    (1, 3, 2, 8)
    """
    check_shapes(
        query=(query, "B T N 2 H"),
        key=(key, "B S K 2 H"),
        value=(value, "B S K Hv"),
        lambda_query=(lambda_query, "2 H"),
        lambda_key=(lambda_key, "2 H"),
        gain=(gain, "Hv"),
    )
    first, second = (
        dot_product_attention(
            query[:, :, :, part], key[:, :, :, part], value, mask=mask, scale=scale, is_causal=is_causal,
            local_window_size=local_window_size, implementation=implementation,
        )
        for part in (0, 1)
    )  # fmt: skip
    share = differential_lambda(lambda_query, lambda_key, lambda_init=lambda_init)
    difference = first.astype(share.dtype) - share * second.astype(share.dtype)
    normal = rms_norm(difference, gain.astype(share.dtype), epsilon=epsilon)
    return (normal * jnp.asarray(1 - lambda_init, share.dtype)).astype(query.dtype)
