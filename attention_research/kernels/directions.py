"""Vectors of which only the direction matters, brought to a length whose squares neither underflow nor overflow."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from attention_research.kernels.precision import accumulator

#: Largest entries between these need no other scale: their squares, and the cubes of their norms, are normal numbers.
ORDINARY = (1e-9, 1e9)
#: Below this largest entry a vector counts as 0: the gradient of its direction would be larger than float32 holds.
SMALLEST = 1e-30


def rescaled(x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
    """x divided by its largest entry where that is not an ordinary number; 0 where it is below `SMALLEST`.

    The gradient treats the divisor as a constant, so use this only where the length of x cancels.
    """
    largest = lax.stop_gradient(jnp.max(jnp.abs(x), axis=-1, keepdims=True, initial=0))
    ordinary = (largest >= ORDINARY[0]) & (largest <= ORDINARY[1])
    x = x / jnp.where(ordinary | (largest < SMALLEST), jnp.ones_like(largest), largest)
    return jnp.where(largest < SMALLEST, jnp.zeros_like(x), x)


def direction(x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
    """x / |x|, 0 with gradient 0 for 0, computed in the accumulator's dtype and rounded to x's."""
    wide = rescaled(x.astype(accumulator(x.dtype)))
    square = jnp.sum(jnp.square(wide), axis=-1, keepdims=True)
    inverse = jnp.where(square == 0, jnp.zeros_like(square), lax.rsqrt(jnp.where(square == 0, 1, square)))
    return (wide * inverse).astype(x.dtype)
