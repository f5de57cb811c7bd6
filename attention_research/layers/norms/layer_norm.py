"""Layer normalization, Ba, Kiros & Hinton 2016: y = gamma (x - mean) / sqrt(variance + epsilon) + beta."""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.normalization import layer_norm
from attention_research.signatures import Positive, PositiveFloat


class LayerNorm(nnx.Module):
    """Layer norm over the last axis of width D, with gain [D] (ones) and bias [D] (zeros); statistics in float32.

    >>> print(LayerNorm(width=3, rngs=nnx.Rngs(0))(jnp.array([1.0, 2.0, 6.0])))  # mean 0, standard deviation 1
    [-0.93 -0.46  1.39]
    """

    def __init__(self, *, width: Positive, epsilon: PositiveFloat = 1e-6, rngs: nnx.Rngs):
        self.epsilon = epsilon
        self.scale = nnx.Param(jnp.ones((width,), jnp.float32))
        self.bias = nnx.Param(jnp.zeros((width,), jnp.float32))

    def __call__(self, x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
        return layer_norm(x, self.scale[...], self.bias[...], epsilon=self.epsilon)
