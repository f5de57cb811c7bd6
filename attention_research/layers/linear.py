"""A dense layer over the last axis: y = x W + b."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.projection import project

glorot_uniform = jax.nn.initializers.glorot_uniform()


class Linear(nnx.Module):
    """Computes ``project(x, kernel, bias)`` in x's dtype. Kernel [in out]: Glorot uniform; bias [out]: zeros.

    >>> Linear(3, 2, rngs=nnx.Rngs(0))(jnp.ones((4, 5, 3))).shape
    (4, 5, 2)
    """

    def __init__(self, in_width: int, out_width: int, *, use_bias: bool = True, rngs: nnx.Rngs):
        self.kernel = nnx.Param(glorot_uniform(rngs.params(), (in_width, out_width), jnp.float32))
        self.bias = nnx.Param(jnp.zeros((out_width,), jnp.float32)) if use_bias else None

    def __call__(self, x: Float[Array, "*B I"]) -> Float[Array, "*B O"]:
        return project(x, self.kernel[...], None if self.bias is None else self.bias[...])
