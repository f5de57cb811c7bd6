"""Random embeddings that stay as they are: what a model can do with tokens that are only told apart."""

from __future__ import annotations

from typing import Literal

from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.layers.embeddings.learned import random_table
from attention_research.signatures import Positive, PositiveFloat


class RandomFrozenEmbedding(nnx.Module):
    """table [V D], N(0, scale^2 / D), among the statistics: no optimizer sees it. Nearly orthogonal where V << e^D."""

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
        """The rows of the tokens, in the compute dtype."""
        return self.table[...][as_int32("ids", ids)].astype(self.dtype)
