"""A learned scalar bias and scale in place of a norm, s (x + b): Fixup, Zhang et al. 2019 (arXiv 1901.09321).

Fixup's encoder in Narang et al. 2021 ends with it, shift before scale. The decoder ends with the shift only
(`layers.norms.scalar_shift`).
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


class ScalarShiftScale(nnx.Module):
    """s (x + b), with b initialized to 0 and s to 1."""

    def __init__(self, *, rngs: nnx.Rngs):
        del rngs
        self.bias = nnx.Param(jnp.zeros((), jnp.float32))
        self.scale = nnx.Param(jnp.ones((), jnp.float32))

    def __call__(self, x: Float[Array, "*A"]) -> Float[Array, "*A"]:
        return (x + self.bias[...].astype(x.dtype)) * self.scale[...].astype(x.dtype)
