"""Learned positions, Gehring et al. 2017; Vaswani et al. 2017, Table 3 row E: a table added to the embeddings."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.registry import Positive


class LearnedPositions(nnx.Module):
    """One vector a position, `max_length` of them, N(0, 1/width) at the start.

    Raises ValueError for rows that are longer than the table, of several that share their positions [1 T]; a packed
    row may be longer, since its positions begin anew with every example.
    """

    def __init__(self, *, width: Positive, max_length: Positive, rngs: nnx.Rngs):
        self.table = nnx.Param(jax.random.normal(rngs.params(), (max_length, width), jnp.float32) * width**-0.5)

    def __call__(self, x: Float[Array, "B T D"], positions: Int[Array, "#B T"]) -> Float[Array, "B T D"]:
        if positions.shape[0] == 1 < x.shape[0] and x.shape[1] > self.table.shape[0]:
            raise ValueError(f"learned positions: {x.shape[1]} tokens, but the table has {self.table.shape[0]} rows")
        return x + self.table[...][positions].astype(x.dtype)
