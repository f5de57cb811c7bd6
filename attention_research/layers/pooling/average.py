"""The weighted average that every pooling with a weight a token has in common."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.precision import einsum


def normalized(weights: Float[Array, "B S"], real: Bool[Array, "B S"]) -> Float[Array, "B S"]:
    """Weights, not negative, divided by their sum over the non-padding positions; all 0 where that sum is 0."""
    kept = jnp.where(real, weights, jnp.zeros((), weights.dtype))
    total = jnp.sum(kept, axis=1, keepdims=True)
    return kept / jnp.where(total == 0, jnp.ones_like(total), total)


def average(x: Float[Array, "B S D"], weights: Float[Array, "B S"]) -> Float[Array, "B D"]:
    """sum_j weights_j x_j, in x's dtype."""
    return einsum("BS,BSD->BD", weights.astype(x.dtype), x).astype(x.dtype)
