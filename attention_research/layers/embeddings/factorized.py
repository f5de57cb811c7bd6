"""Factorized embeddings, Lan et al. 2020 (ALBERT, arXiv 1909.11942), section 3.1, with an output layer of its own:
"Factorized Embedding" of Narang et al. 2021 (arXiv 2102.11972, Table 1).

V R + R D + D V parameters instead of `t5`'s V D: the input is narrow, the softmax is untied and whole, as released.
"""

from __future__ import annotations

from typing import Literal

from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.layers.embeddings.t5_untied_output import T5UntiedOutputVocabulary, output_kernel
from attention_research.layers.embeddings.tables import FactoredTable
from attention_research.signatures import Positive


class FactorizedVocabulary(T5UntiedOutputVocabulary):
    """[V R] [R D] embeds source and target, unscaled; the logits are hidden kernel, kernel [D V], without a bias."""

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        width: Positive,
        rank: Positive = 128,
        dtype: Literal["float32", "bfloat16"],
        rngs: nnx.Rngs,
    ):
        self.dtype = dtype
        self.factors = FactoredTable(vocabulary_size, rank, width, rngs=rngs)
        self.output_kernel = output_kernel(width, vocabulary_size, rngs)

    def source(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """Embeddings of source tokens."""
        return self.factors.embed(ids, self.dtype)

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """Embeddings of target tokens."""
        return self.factors.embed(ids, self.dtype)
