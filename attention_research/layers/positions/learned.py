"""Learned positions, Gehring et al. 2017; Vaswani et al. 2017, Table 3 row E: a table added to the embeddings."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.layers.positions.bounds import expect_rows, rows_at
from attention_research.signatures import Positive


class LearnedPositions(nnx.Module):
    """Adds one learned vector per position, from a table of `max_length` vectors initialized from N(0, 1/width).

    Raises ValueError if rows are too long (`rows_at`).

    >>> layer = LearnedPositions(width=4, max_length=16, rngs=nnx.Rngs(0))
    >>> layer(jnp.zeros((1, 2, 4)), jnp.arange(2)[None]).shape
    (1, 2, 4)
    """

    def __init__(self, *, width: Positive, max_length: Positive, rngs: nnx.Rngs):
        self.table = nnx.Param(jax.random.normal(rngs.params(), (max_length, width), jnp.float32) * width**-0.5)

    def expect_length(self, length: int) -> None:
        """Raises ValueError if texts of `length` tokens are longer than the table."""
        expect_rows("learned", self.table.shape[0], length)

    def __call__(self, x: Float[Array, "B T D"], positions: Int[Array, "#B T"]) -> Float[Array, "B T D"]:
        return x + rows_at("learned", self.table[...], x, positions)
