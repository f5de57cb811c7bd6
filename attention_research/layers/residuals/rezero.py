"""ReZero, Bachlechner et al. 2020 (arXiv 2003.04887), equation 5: x + alpha f(x), with alpha learned."""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


class ReZero(nnx.Module):
    """One alpha per branch, initialized to 0, so that the network is initially the identity."""

    def __init__(self, *, rngs: nnx.Rngs):
        del rngs
        self.alpha = nnx.Param(jnp.zeros((), jnp.float32))

    def __call__(self, stream: Float[Array, "B T D"], y: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        """stream + alpha y."""
        return stream + self.alpha[...].astype(y.dtype) * y
