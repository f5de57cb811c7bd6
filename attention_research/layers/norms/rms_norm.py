"""RMS normalization, Zhang & Sennrich 2019, used in T5: y = gamma x / sqrt(mean(x^2) + epsilon)."""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import rms_norm
from attention_research.signatures import Positive, PositiveFloat


class RMSNorm(nnx.Module):
    """RMSNorm over the last axis of width D, with gain [D] (ones) and no bias; the mean square is in float32.

    >>> print(RMSNorm(width=2, rngs=nnx.Rngs(0))(jnp.array([3.0, 4.0])))  # divided by sqrt(12.5)
    [0.85 1.13]
    """

    def __init__(self, *, width: Positive, epsilon: PositiveFloat = 1e-6, rngs: nnx.Rngs):
        del rngs
        self.epsilon = epsilon
        self.scale = nnx.Param(jnp.ones((width,), jnp.float32))

    def __call__(self, x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
        return rms_norm(x, self.scale[...], epsilon=self.epsilon)
