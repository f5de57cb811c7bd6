"""A generator that selects random words, as a baseline for rationales. Each word has the same probability."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from attention_research.models.rationales.selection import Selected, draws, taken
from attention_research.signatures import Given, Rate


class RandomWords(nnx.Module):
    """Selects each word with probability `share`. Without a key, the random numbers are the same in every call."""

    def __init__(self, *, share: Rate = 0.15, input_width: Given[int], rngs: nnx.Rngs):
        del input_width, rngs  # it has no parameters
        self.share = share

    def __call__(
        self,
        x: Float[Array, "B S E"],
        real: Bool[Array, "B S"],
        *,
        key: Key[Array, ""] | None = None,
        selected: Bool[Array, "B S"] | None = None,
    ) -> Selected:
        """(equal scores for all words, choice)."""
        score = math.log(self.share) - math.log1p(-self.share) if self.share else -jnp.inf
        scores = jnp.full(real.shape, score, x.dtype)
        if selected is None:
            selected = taken(scores, draws(jax.random.key(0) if key is None else key, real.shape))
        return scores, selected & real
