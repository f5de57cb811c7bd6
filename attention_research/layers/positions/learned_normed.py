"""Learned positions and a norm of the sum, as BERT has them (Devlin et al. 2019, after the released code)."""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.layers.positions.learned import LearnedPositions
from attention_research.signatures import Child


class LearnedNormedPositions(LearnedPositions):
    """N(x + table[p]). The released code adds a vector for each of two segments too; the first one's can stand in the
    table. Raises as `LearnedPositions`."""

    def __init__(self, *, norm: Child["norm"], rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.norm = norm(rngs=rngs)

    def __call__(self, x: Float[Array, "B T D"], positions: Int[Array, "#B T"]) -> Float[Array, "B T D"]:
        return self.norm(super().__call__(x, positions))
