"""The residual connection of He et al. 2016 (arXiv 1512.03385), equation 1: x + f(x)."""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float


class PlainResidual(nnx.Module):
    """Adds the input and the output of a branch. It has no parameters."""

    def __init__(self, *, rngs: nnx.Rngs):
        del rngs

    def __call__(self, stream: Float[Array, "B T D"], y: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        """stream + y."""
        return stream + y
