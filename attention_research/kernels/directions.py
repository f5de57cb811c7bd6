"""Normalization of vectors without underflow or overflow of their squares."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from attention_research.kernels.precision import accumulator

#: Vectors whose largest entry is in this range are not rescaled: squares and cubes of norms are normal numbers.
ORDINARY = (1e-9, 1e9)
#: A vector whose largest entry is below this counts as 0, because the gradient of its direction overflows float32.
SMALLEST = 1e-30


def rescaled(x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
    """Divides x by its largest entry if that is outside `ORDINARY`. Returns 0 if it is below `SMALLEST`.

    The gradient treats the divisor as a constant, so use this only if the norm of x cancels.
    """
    largest = lax.stop_gradient(jnp.max(jnp.abs(x), axis=-1, keepdims=True, initial=0))
    ordinary = (largest >= ORDINARY[0]) & (largest <= ORDINARY[1])
    x = x / jnp.where(ordinary | (largest < SMALLEST), jnp.ones_like(largest), largest)
    return jnp.where(largest < SMALLEST, jnp.zeros_like(x), x)


def direction(x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
    """x / |x|, computed in the accumulator's dtype and rounded to x's dtype. For x = 0, result and gradient are 0.

    >>> print(np.asarray(direction(jnp.array([[3.0, 4.0], [3e-25, 4e-25], [0.0, 0.0]]))).round(2))
    [[0.6 0.8]
     [0.6 0.8]
     [0.  0. ]]
    """
    wide = rescaled(x.astype(accumulator(x.dtype)))
    square = jnp.sum(jnp.square(wide), axis=-1, keepdims=True)
    inverse = jnp.where(square == 0, jnp.zeros_like(square), lax.rsqrt(jnp.where(square == 0, 1, square)))
    return (wide * inverse).astype(x.dtype)
