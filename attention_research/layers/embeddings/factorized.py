"""Factorized embeddings with a separate output layer, Lan et al. 2020 (ALBERT, arXiv 1909.11942), section 3.1.

This is "Factorized Embedding" of Narang et al. 2021 (arXiv 2102.11972, Table 1). It has V R + R D + D V parameters
instead of the V D of `t5`: the input table is narrow, and the output layer is untied and not factorized, as in the
release.
"""

from __future__ import annotations

from typing import Literal

from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.layers.embeddings.t5_untied_output import T5UntiedOutputVocabulary, output_kernel
from attention_research.layers.embeddings.tables import FactoredTable
from attention_research.signatures import Positive


class FactorizedVocabulary(T5UntiedOutputVocabulary):
    """Factors [V R] and [R D] embed source and target tokens without a scale. The logits are hidden kernel.

    The kernel is [D V]; there is no bias.
    """

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
        """The embeddings of source tokens."""
        return self.factors.embed(ids, self.dtype)

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of target tokens."""
        return self.factors.embed(ids, self.dtype)
