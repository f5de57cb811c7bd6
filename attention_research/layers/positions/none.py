"""No position encoding (Haviv et al. 2022)."""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float, Int


class NoPositions(nnx.Module):
    """Returns the embeddings unchanged."""

    def __init__(self, *, rngs: nnx.Rngs):
        del rngs

    def __call__(self, x: Float[Array, "B T D"], positions: Int[Array, "#B T"]) -> Float[Array, "B T D"]:
        del positions
        return x
