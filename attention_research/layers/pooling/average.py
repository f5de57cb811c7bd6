"""The weighted average of token embeddings, which all pooling layers with one weight per token use."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.precision import einsum


def normalized(weights: Float[Array, "B S"], real: Bool[Array, "B S"]) -> Float[Array, "B S"]:
    """Divides non-negative weights by their sum over non-padding positions. If the sum is 0, all weights are 0.

    >>> normalized(jnp.array([[1.0, 3.0, 5.0]]), jnp.array([[True, True, False]])).tolist()
    [[0.25, 0.75, 0.0]]
    """
    kept = jnp.where(real, weights, jnp.zeros((), weights.dtype))
    total = jnp.sum(kept, axis=1, keepdims=True)
    return kept / jnp.where(total == 0, jnp.ones_like(total), total)


def average(x: Float[Array, "B S D"], weights: Float[Array, "B S"]) -> Float[Array, "B D"]:
    """sum_j weights_j x_j, in x's dtype.

    >>> x = jnp.array([[[1.0], [3.0]]])
    >>> average(x, jnp.array([[0.25, 0.75]])).tolist()
    [[2.5]]
    """
    return einsum("BS,BSD->BD", weights.astype(x.dtype), x).astype(x.dtype)
