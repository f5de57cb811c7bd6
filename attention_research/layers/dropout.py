"""Dropout (Srivastava et al. 2014) with the random key as an argument; no key means no dropout."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from attention_research.parallel.replica_settings import value

#: Sixteen random bits decide about a value: of a 32-bit word, half for each of two. Drawing the bits is what dropout
#: costs on a CPU, and a rate is exact to 1 / 65,536.
STEPS = 1 << 16


def dropout(x: Float[Array, "*A"], rate: float, key: Key[Array, ""] | None) -> Float[Array, "*A"]:
    """x with each value zeroed with probability `rate` and the others divided by 1 - rate; x itself without a key.

    The rate is rounded to a multiple of 1 / 65,536, in the divisor too: the expectation is x. Of a `Varied` rate, which
    is known when the program runs, the same values are zeroed as of the number.
    """
    rate = value(rate)
    varies = isinstance(rate, jax.Array)
    threshold = jnp.round(rate * STEPS) if varies else round(rate * STEPS)
    if key is None or (not varies and threshold == 0):
        return x
    *lead, width = x.shape or (1,)
    words = jax.random.bits(key, (*lead, (width + 1) // 2), jnp.uint32)
    halves = jax.lax.bitcast_convert_type(words, jnp.uint16).reshape(*lead, -1)
    keep = (halves[..., :width] >= jnp.uint16(threshold)).reshape(x.shape)
    return jnp.where(keep, x / jnp.asarray(1.0 - threshold / STEPS, x.dtype), jnp.zeros((), x.dtype))
