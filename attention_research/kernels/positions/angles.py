"""Angles position * frequency that are accurate at any position, for positions that are known only at run time."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32


def frequencies(width: int, base: float) -> np.ndarray:
    """The frequencies base^(-2i / width) for i = 0 to ceil(width / 2) - 1, in float64.

    >>> frequencies(4, 10_000.0).tolist()
    [1.0, 0.01]
    """
    return base ** (-np.arange(0, width, 2) / width)


def angles(positions: Int[Array, "*P"], frequency: np.ndarray, dtype: jnp.dtype) -> Float[Array, "*P F"]:
    """positions * frequency modulo 2 pi, in [-pi, pi), for float32. For float64, it is the product itself.

    The error of a float32 product is 1e-3 at position 10,000 and 0.1 at a million. Here the frequency is in units of
    2^-32 turns, so that 32-bit integer arithmetic drops full turns exactly. The error is 4e-7 at any position below
    2^30, also for negative positions. Raises ValueError if positions are not integers.

    >>> print(angles(jnp.array([0, 1, 7]), np.array([1.0]), jnp.dtype("float32"))[:, 0])  # 7 - 2 pi = 0.72
    [0.   1.   0.72]
    """
    positions = as_int32("positions", positions)
    if dtype == jnp.float64:
        return positions.astype(jnp.float64)[..., None] * jnp.asarray(frequency, jnp.float64)
    units = np.mod(frequency / (2 * np.pi), 1.0) * 2.0**32
    whole = np.floor(units)
    position = positions[..., None]
    turned = jax.lax.bitcast_convert_type(position, jnp.uint32) * jnp.asarray(whole.astype(np.uint32))
    rest = jnp.round(position.astype(jnp.float32) * jnp.asarray(units - whole, jnp.float32)).astype(jnp.int32)
    phase = jax.lax.bitcast_convert_type(turned, jnp.int32) + rest
    return phase.astype(jnp.float32) * jnp.float32(2 * np.pi / 2.0**32)
