"""Fixup's residual connection, Zhang et al. 2019 (arXiv 1901.09321), section 3: x + s f(x + b).

The step "shift" of the branch adds b.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


class ScaledResidual(nnx.Module):
    """One learned scale s per branch, initialized to 1."""

    def __init__(self, *, rngs: nnx.Rngs):
        del rngs
        self.scale = nnx.Param(jnp.ones((), jnp.float32))

    def __call__(self, stream: Float[Array, "B T D"], y: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        """stream + s y."""
        return stream + self.scale[...].astype(y.dtype) * y
