"""Random embeddings that are not trained, a baseline that only distinguishes tokens."""

from __future__ import annotations

from typing import Literal

from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.layers.embeddings.learned import random_table
from attention_research.signatures import Positive, PositiveFloat


class RandomFrozenEmbedding(nnx.Module):
    """A constant random table [V D] from N(0, scale^2 / D), which no optimizer updates.

    The embeddings are nearly orthogonal if V << e^D.

    `scale` multiplies the standard deviation of the values.
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
        self.table = nnx.BatchStat(random_table(vocabulary_size, width, scale, rngs))

    def __call__(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of the tokens, in the compute dtype."""
        return self.table[...][as_int32("ids", ids)].astype(self.dtype)
