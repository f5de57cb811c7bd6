"""Dropout (Srivastava et al. 2014) with the random key as an argument; no key means no dropout."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key


def dropout(x: Float[Array, "*A"], rate: float, key: Key[Array, ""] | None) -> Float[Array, "*A"]:
    """x with each value zeroed with probability `rate` and the others divided by 1 - rate; x itself without a key."""
    if key is None or rate == 0.0:
        return x
    keep = jax.random.bernoulli(key, 1.0 - rate, x.shape)
    return jnp.where(keep, x / jnp.asarray(1.0 - rate, x.dtype), jnp.zeros((), x.dtype))
