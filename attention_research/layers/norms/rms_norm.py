"""Root mean square layer normalisation, Zhang & Sennrich 2019: y = gamma x / sqrt(mean(x^2) + epsilon); T5's."""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import rms_norm
from attention_research.signatures import Positive, PositiveFloat


class RMSNorm(nnx.Module):
    """Over the last axis of width D; gain [D] one, no bias; the mean square in float32."""

    def __init__(self, *, width: Positive, epsilon: PositiveFloat = 1e-6, rngs: nnx.Rngs):
        del rngs
        self.epsilon = epsilon
        self.scale = nnx.Param(jnp.ones((width,), jnp.float32))

    def __call__(self, x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
        return rms_norm(x, self.scale[...], epsilon=self.epsilon)
