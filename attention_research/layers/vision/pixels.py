"""Conversion of stored images (integers from 0 to 255) to the inputs of networks."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float, UInt8


def scaled(
    image: UInt8[Array, "B Y X C"], mean: Sequence[float] = (0.5,), deviation: Sequence[float] = (0.5,),
    dtype: str = "float32",
) -> Float[Array, "B Y X C"]:  # fmt: skip
    """(v / 255 - mean) / deviation, with one mean and deviation for all channels or one per channel.

    The defaults scale to [-1, 1].

    >>> image = jnp.array([0, 51, 255], jnp.uint8).reshape(1, 1, 1, 3)
    >>> print(scaled(image).ravel())
    [-1.  -0.6  1. ]
    """
    x = image.astype(jnp.float32) / 255.0
    return ((x - jnp.asarray(mean, jnp.float32)) / jnp.asarray(deviation, jnp.float32)).astype(dtype)
