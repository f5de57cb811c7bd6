"""A learned scalar bias, initialized to 0, as in Fixup, Zhang et al. 2019 (arXiv 1901.09321)."""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


class Shift(nnx.Module):
    """Adds the learned scalar b to x."""

    def __init__(self, *, rngs: nnx.Rngs):
        del rngs
        self.bias = nnx.Param(jnp.zeros((), jnp.float32))

    def __call__(self, x: Float[Array, "*A"]) -> Float[Array, "*A"]:
        return x + self.bias[...].astype(x.dtype)
