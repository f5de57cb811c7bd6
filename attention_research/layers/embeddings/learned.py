"""Embeddings that are randomly initialized and learned with the task."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.signatures import Positive, PositiveFloat


def random_table(vocabulary_size: int, width: int, scale: float, rngs: nnx.Rngs) -> Float[Array, "V D"]:
    """A table [V D] from N(0, scale^2 / D), so that the norm of an embedding is about `scale`."""
    return jax.random.normal(rngs.params(), (vocabulary_size, width), jnp.float32) * scale * width**-0.5


class LearnedEmbedding(nnx.Module):
    """A learned table [V D], initialized from N(0, scale^2 / D).

    `scale` multiplies the standard deviation of the initial values.

    >>> embedding = LearnedEmbedding(vocabulary_size=100, width=8, dtype="float32", rngs=nnx.Rngs(0))
    >>> embedding(jnp.array([[5, 6, 7]])).shape
    (1, 3, 8)
    """

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        width: Positive,
        scale: PositiveFloat = 1.0,
        dtype: Literal["float32", "bfloat16"],
        rngs: nnx.Rngs,
    ):
        self.dtype = dtype
        self.table = nnx.Param(random_table(vocabulary_size, width, scale, rngs))

    def __call__(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of the tokens, in the compute dtype."""
        return self.table[...][as_int32("ids", ids)].astype(self.dtype)
