"""The maximum along an axis, with a gradient that is finite whatever operations the compiler fuses."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

__all__ = ["largest"]


def largest(x: Float[Array, "..."], axis: int, *, of_none: float = -jnp.inf) -> Float[Array, "..."]:
    """The maximum of x along `axis`. Its gradient goes to the first of the largest values. NaN if x has a NaN.

    The gradient of `jnp.max` finds the values that equal the maximum and divides by their number. XLA may compute x
    twice, for the maximum and for the comparison, with different rounding. Then no value equals the maximum, and the
    gradient is 0 / 0. This function keeps the index of the maximum instead, as PyTorch's `max` and `max_pool2d` do.
    `of_none` is the maximum along an axis of size 0.
    """
    if not x.shape[axis]:
        return jnp.full(x.shape[:axis] + x.shape[axis:][1:], of_none, x.dtype)
    place = jnp.argmax(x, axis=axis, keepdims=True)
    here = lax.broadcasted_iota(place.dtype, x.shape, axis % x.ndim) == place
    return jnp.sum(jnp.where(here, x, jnp.zeros_like(x)), axis=axis)
