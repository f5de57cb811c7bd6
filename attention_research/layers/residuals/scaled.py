"""Fixup's residual, Zhang et al. 2019 (arXiv 1901.09321), section 3: x + s f(x + b), s a learned scalar, 1 at first.

The b before the branch is the step "shift" of its list.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


class ScaledResidual(nnx.Module):
    """One s a branch."""

    def __init__(self, *, rngs: nnx.Rngs):
        del rngs
        self.scale = nnx.Param(jnp.ones((), jnp.float32))

    def __call__(self, stream: Float[Array, "B T D"], y: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        """stream + s y."""
        return stream + self.scale[...].astype(y.dtype) * y
