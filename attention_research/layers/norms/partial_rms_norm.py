"""Partial RMSNorm (pRMSNorm), Zhang & Sennrich 2019 (arXiv 1910.07467), section 5.

y = gamma x / sqrt(mean(x_1^2 ... x_k^2) + epsilon): the root mean square of all D channels is estimated from the first
k channels, a share p of D. The paper uses p = 6.25%. Narang et al. 2021 call their row "RMS Norm", but their released
configuration uses this norm with 6.75% (52 of 768 channels).
"""

from __future__ import annotations

import math

import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Float

from attention_research.errors import ConfigError
from attention_research.kernels.precision import accumulator
from attention_research.signatures import Positive, PositiveFloat


class PartialRMSNorm(nnx.Module):
    """Partial RMSNorm over the last axis of width D, from the mean square of its first ceil(D * fraction) channels.

    The mean square is computed in float32. The gain [D] is initialized to ones; there is no bias. Raises ConfigError if
    `fraction` is above 1.

    `fraction` is the share of the channels from which the mean square is computed.
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
            raise ConfigError(f"fraction: expected at most 1, got {fraction}")
        self.channels, self.epsilon = math.ceil(width * fraction), epsilon
        self.scale = nnx.Param(jnp.ones((width,), jnp.float32))

    def __call__(self, x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
        wide = x.astype(accumulator(x.dtype))
        mean_square = jnp.mean(jnp.square(wide[..., : self.channels]), axis=-1, keepdims=True)
        return (wide * lax.rsqrt(mean_square + self.epsilon) * self.scale[...].astype(wide.dtype)).astype(x.dtype)
