"""Learned positions followed by a norm, as in BERT (Devlin et al. 2019, following the released code)."""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.layers.positions.learned import LearnedPositions
from attention_research.signatures import Child


class LearnedNormedPositions(LearnedPositions):
    """Computes N(x + table[p]), where N is the norm.

    The released code also adds a vector for each of two segments; the vector of the first segment can be included in
    the table. Raises ValueError if rows are too long, as `LearnedPositions` does.
    """

    def __init__(self, *, norm: Child["norm"], rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.norm = norm(rngs=rngs)

    def __call__(self, x: Float[Array, "B T D"], positions: Int[Array, "#B T"]) -> Float[Array, "B T D"]:
        return self.norm(super().__call__(x, positions))
