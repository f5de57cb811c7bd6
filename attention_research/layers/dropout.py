"""Dropout (Srivastava et al. 2014) with the random key as an argument; no key means no dropout."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from attention_research.parallel.replica_settings import value

#: Each value uses 16 random bits, so that one 32-bit word serves two values and a rate is exact to 1 / 65,536. Drawing
#: the random bits is the main cost of dropout on a CPU.
STEPS = 1 << 16


def dropout(x: Float[Array, "*A"], rate: float, key: Key[Array, ""] | None) -> Float[Array, "*A"]:
    """Zeroes each value of x with probability `rate` and divides the others by 1 - rate. Without a key, returns x.

    The rate is rounded to a multiple of 1 / 65,536 below 1, also in the divisor, so that the expectation is x in
    float32. In bfloat16, the divisor is rounded to 8 bits, so that the expectation is off by up to 0.4%, and so is each
    quotient. A `Varied` rate (a value that is known only when the program runs) zeroes the same values as the equal
    constant rate.

    >>> x = jnp.ones((1000,))
    >>> dropout(x, 0.5, None) is x  # without a key
    True
    >>> y = dropout(x, 0.5, jax.random.key(0))
    >>> bool(abs(y.mean() - 1) < 0.1), jnp.unique(y).tolist()
    (True, [0.0, 2.0])
    """
    rate = value(rate)
    varies = isinstance(rate, jax.Array)
    threshold = jnp.minimum(jnp.round(rate * STEPS), STEPS - 1) if varies else min(round(rate * STEPS), STEPS - 1)
    if key is None or (not varies and threshold == 0):
        return x
    *lead, width = x.shape or (1,)
    words = jax.random.bits(key, (*lead, (width + 1) // 2), jnp.uint32)
    halves = jax.lax.bitcast_convert_type(words, jnp.uint16).reshape(*lead, -1)
    keep = (halves[..., :width] >= jnp.uint16(threshold)).reshape(x.shape)
    return jnp.where(keep, x / jnp.asarray(1.0 - threshold / STEPS, x.dtype), jnp.zeros((), x.dtype))
