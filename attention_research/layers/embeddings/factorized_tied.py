"""Factorized embeddings that are the output layer too, Lan et al. 2020 (ALBERT, arXiv 1909.11942), section 3.1:
"Factorized & shared embeddings" of Narang et al. 2021 (arXiv 2102.11972, Table 1)."""

from __future__ import annotations

from typing import Literal

import jax
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.layers.embeddings.tables import FactoredTable
from attention_research.layers.embeddings.tied import log_likelihood, logits
from attention_research.signatures import Positive


class FactorizedTiedEmbeddings(nnx.Module):
    """E1 [V R] and E2 [R D], V R + R D parameters: E1[ids] E2 embeds, (hidden D^-0.5 E2^T) E1^T are the logits."""

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

    def source(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """Embeddings of source tokens."""
        return self.factors.embed(ids, self.dtype)

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """Embeddings of target tokens."""
        return self.factors.embed(ids, self.dtype)

    def logits(self, hidden: Float[Array, "*B D"]) -> Float[Array, "*B V"]:
        """(hidden D^-0.5 E2^T) E1^T, in float32."""
        return logits(*self.factors.output(hidden))

    def log_probabilities(self, hidden: Float[Array, "B D"]) -> Float[Array, "B V"]:
        """log p over the vocabulary, for decoding (all V of them)."""
        return jax.nn.log_softmax(self.logits(hidden))

    def log_likelihood(self, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood", "smooth_log_likelihood" and "log_normalizer", [B T]."""
        return log_likelihood(*self.factors.output(hidden), targets)
