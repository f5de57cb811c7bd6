"""The bottleneck MLP that computes channel weights: W_2 relu(W_1 z)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.layers.vision.convolution import he_normal

glorot_uniform = jax.nn.initializers.glorot_uniform()


class Excitation(nnx.Module):
    """W_1 [C R] and W_2 [R C], where R is C / reduction, but at least 1. As in the papers, there are no biases."""

    def __init__(self, channels: int, reduction: int, *, rngs: nnx.Rngs):
        width = max(channels // reduction, 1)
        self.reduce_kernel = nnx.Param(he_normal(rngs.params(), (channels, width), jnp.float32))
        self.expand_kernel = nnx.Param(glorot_uniform(rngs.params(), (width, channels), jnp.float32))

    def kernels(self) -> tuple[Array, Array]:
        """Returns (W_1, W_2)."""
        return self.reduce_kernel[...], self.expand_kernel[...]
