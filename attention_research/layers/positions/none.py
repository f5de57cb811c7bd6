"""No positional signal: what a Transformer can do with the order of tokens unknown (Haviv et al. 2022)."""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float, Int


class NoPositions(nnx.Module):
    """The embeddings as they are."""

    def __init__(self, *, rngs: nnx.Rngs):
        del rngs

    def __call__(self, x: Float[Array, "B T D"], positions: Int[Array, "#B T"]) -> Float[Array, "B T D"]:
        del positions
        return x
