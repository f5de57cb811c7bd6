"""A generator whose choices are independent given the text, Lei et al. 2016, section 4.2.

p(z_t = 1 | x) = sigmoid([h->_t; h<-_t] w + b)
"""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from attention_research.layers.linear import Linear
from attention_research.models.rationales.selection import BothDirections, Selected, draws, taken
from attention_research.signatures import Child, Given


class IndependentGenerator(nnx.Module):
    """Selects each word based on the states of both directions at this word."""

    def __init__(self, *, cell: Child["recurrent_cell"], input_width: Given[int], rngs: nnx.Rngs):
        self.reader = BothDirections(cell, input_width, rngs=rngs)
        self.score = Linear(self.reader.width, 1, rngs=rngs)

    def __call__(
        self,
        x: Float[Array, "B S E"],
        real: Bool[Array, "B S"],
        *,
        key: Key[Array, ""] | None = None,
        selected: Bool[Array, "B S"] | None = None,
    ) -> Selected:
        """(scores, choice). The choice is sampled with a key, and the more likely one without a key. If `selected` is
        given, it is the choice."""
        scores = self.score(self.reader(x, real))[..., 0]
        if selected is None:
            selected = taken(scores, draws(key, real.shape))
        return scores, selected & real
