"""Rotary positions, Su et al. 2021 (arXiv 2104.09864), equation 34: rotates (x_2i, x_2i+1) by p base^(-2i/D).

Apply it to queries and keys, but not to values. Then q_m . k_n depends on positions only through m - n. The paper and
its code (and GPT-J) pair neighbouring features. GPT-NeoX and Llama pair feature i with i + D/2, which is the same up to
a permutation of the features; `halves` selects this layout, for their weights. Keys can be rotated once, before they
are cached.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from attention_research.kernels.positions.angles import angles, frequencies
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes


def rotary(
    x: Float[Array, "B T N H"],
    positions: Int[Array, "T"] | Int[Array, "B T"],
    *,
    base: float = 10000.0,
    width: int | None = None,
    halves: bool = False,
    frequency: np.ndarray | None = None,
    magnitude: float = 1.0,
) -> Float[Array, "B T N H"]:
    """Rotates the pairs of features of x according to their positions, in float32. The result has x's dtype.

    `width` is the number of leading features that are rotated (None: all; it must be even). The other features are
    unchanged, as in GPT-J and GPT-NeoX, and D in the equation is then `width`. `frequency` [width / 2] replaces the
    powers of the base (`rotary_scaling`), and the rotated features are multiplied by `magnitude`. Raises ValueError
    naming the argument and the axis.

    >>> quarter = rotary(jnp.array([[[[1.0, 0.0]]]]), jnp.array([1]))[0, 0, 0]
    >>> [round(float(v), 4) for v in quarter]  # cos 1, sin 1
    [0.5403, 0.8415]
    """
    check_shapes(x=(x, "B T N H"), positions=(positions, "T" if positions.ndim == 1 else "B T"))
    H = x.shape[-1]
    width = H if width is None else width
    if width % 2 or not 0 < width <= H:
        raise ValueError(f"width: expected an even number from 2 to axis H of x, {H}, got {width}")
    if frequency is None:
        frequency = frequencies(width, base)
    elif frequency.shape != (width // 2,):
        raise ValueError(f"frequency: expected {width // 2} numbers, half of the width, got {list(frequency.shape)}")
    dtype = accumulator(x.dtype)
    angle = angles(positions, frequency, dtype)
    angle = (angle if positions.ndim == 2 else angle[None])[:, :, None]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    if magnitude != 1:
        cos, sin = cos * jnp.asarray(magnitude, dtype), sin * jnp.asarray(magnitude, dtype)
    turning = x[..., :width].astype(dtype)
    pairs = (2, width // 2) if halves else (width // 2, 2)
    axis = -2 if halves else -1
    first, second = jnp.moveaxis(turning.reshape(*x.shape[:-1], *pairs), axis, 0)
    turned = jnp.stack([first * cos - second * sin, first * sin + second * cos], axis=axis)
    turned = turned.reshape(turning.shape).astype(x.dtype)
    return turned if width == H else jnp.concatenate([turned, x[..., width:]], axis=-1)
