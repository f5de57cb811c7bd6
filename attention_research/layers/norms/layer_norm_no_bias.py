"""Layer normalization without a bias: y = gamma (x - mean) / sqrt(variance + epsilon), as nanoGPT has it by default."""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.normalization import layer_norm
from attention_research.signatures import Positive, PositiveFloat


class LayerNormNoBias(nnx.Module):
    """Layer norm over the last axis of width D, with a gain [D] (ones) and no bias; statistics in float32."""

    def __init__(self, *, width: Positive, epsilon: PositiveFloat = 1e-5, rngs: nnx.Rngs):
        del rngs
        self.epsilon = epsilon
        self.scale = nnx.Param(jnp.ones((width,), jnp.float32))

    def __call__(self, x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
        scale = self.scale[...]
        return layer_norm(x, scale, jnp.zeros_like(scale), epsilon=self.epsilon)
