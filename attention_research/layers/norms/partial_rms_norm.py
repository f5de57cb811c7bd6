"""Partial RMSNorm (pRMSNorm), Zhang & Sennrich 2019 (arXiv 1910.07467), section 5.

y = gamma x / sqrt(mean(x_1^2 ... x_k^2) + epsilon): the first k channels, a share p of them, speak for all D. The paper
takes p = 6.25%. Narang et al. 2021 call their row "RMS Norm", but the configuration that they released has this with
6.75% (52 of 768 channels).
"""

from __future__ import annotations

import math

import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Float

from attention_research.kernels.precision import accumulator
from attention_research.signatures import Positive, PositiveFloat


class PartialRMSNorm(nnx.Module):
    """Over the last axis of width D, the mean square of its first ceil(D `fraction`) channels, in float32.

    Gain [D] one, no bias. Raises ValueError for a fraction above 1.
    """

    def __init__(
        self,
        *,
        width: Positive,
        fraction: PositiveFloat = 0.0625,
        epsilon: PositiveFloat = 1e-6,
        rngs: nnx.Rngs,
    ):
        del rngs
        if fraction > 1:
            raise ValueError(f"fraction: {fraction} of the channels; expected at most 1")
        self.channels, self.epsilon = math.ceil(width * fraction), epsilon
        self.scale = nnx.Param(jnp.ones((width,), jnp.float32))

    def __call__(self, x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
        wide = x.astype(accumulator(x.dtype))
        mean_square = jnp.mean(jnp.square(wide[..., : self.channels]), axis=-1, keepdims=True)
        return (wide * lax.rsqrt(mean_square + self.epsilon) * self.scale[...].astype(wide.dtype)).astype(x.dtype)
