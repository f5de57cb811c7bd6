"""Sinusoidal position encodings, Vaswani et al. 2017, section 3.5."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def sinusoidal_positions(length: int, width: int) -> Float[Array, "length width"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i / width)), PE(pos, 2i+1) = cos of the same; float32.

    Sine and cosine interleave, as the paper prints; tensor2tensor puts all sines first and divides by width/2 - 1.
    An odd width ends in a sine. Computed in float64: float32 angles are wrong by 1e-3 at position 10,000.
    """
    angles = np.arange(length)[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, -1)[:, :width]
    return jnp.asarray(table, jnp.float32)
