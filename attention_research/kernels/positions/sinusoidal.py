"""Sinusoidal position encodings, Vaswani et al. 2017 (arXiv 1706.03762), section 3.5: PE(p, 2i) =
sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos(p / 10000^(2i/D)).

Sines and cosines are interleaved, as in the paper; tensor2tensor puts all sines first and divides by D/2 - 1. An odd
width ends with a sine. PE(p + k) is a rotation of PE(p) that depends only on k.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from attention_research.kernels.positions.angles import angles, frequencies
from attention_research.kernels.shapes import check_shapes


def sinusoidal_positions(length: int, width: int) -> Float[Array, "length width"]:
    """The encodings PE of positions 0 to length - 1, in float32.

    Angles are computed in float64, because the error of float32 angles is 1e-3 at position 10,000.

    >>> table = sinusoidal_positions(100, 8)
    >>> products = table @ table.T  # depend on the distance of two positions only
    >>> print(table[0], bool(abs(products[0, 5] - products[50, 55]) < 1e-4))
    [0. 1. 0. 1. 0. 1. 0. 1.] True
    """
    angles = np.arange(length)[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, width + width % 2)[:, :width]
    return jnp.asarray(table, jnp.float32)


def sinusoidal_at(positions: Int[Array, "B T"], width: int, *, base: float = 10000.0) -> Float[Array, "B T D"]:
    """The encodings PE of any positions, including traced and negative ones, without a table.

    They are float32, with an error of at most 1e-6 for positions below 2^30. Use it for decoding (positions [B 1]), for
    distances (R of Transformer-XL) and for depths in a tree. Raises ValueError naming the axis.

    >>> print(sinusoidal_at(jnp.array([[0, 1]]), 4))
    [[[0.   1.   0.   1.  ]
      [0.84 0.54 0.01 1.  ]]]
    """
    check_shapes(positions=(positions, "B T"))
    angle = angles(positions, frequencies(width, base), jnp.dtype(jnp.float32))
    pairs = jnp.stack([jnp.sin(angle), jnp.cos(angle)], axis=-1)
    return pairs.reshape(*positions.shape, width + width % 2)[..., :width]
