"""Factorized embeddings tied to the output layer, Lan et al. 2020 (ALBERT, arXiv 1909.11942), section 3.1.

This is "Factorized & shared embeddings" of Narang et al. 2021 (arXiv 2102.11972, Table 1).
"""

from __future__ import annotations

from typing import Literal

import jax
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.layers.embeddings.tables import FactoredTable
from attention_research.layers.embeddings.tied import log_likelihood, logits
from attention_research.signatures import Positive


class FactorizedTiedEmbeddings(nnx.Module):
    """Tied factors E1 [V R] and E2 [R D]. Parameters: V R + R D.

    Embeddings are E1[ids] E2, and logits are (hidden D^-0.5 E2^T) E1^T.
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

    def source(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of source tokens."""
        return self.factors.embed(ids, self.dtype)

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of target tokens."""
        return self.factors.embed(ids, self.dtype)

    def logits(self, hidden: Float[Array, "*B D"]) -> Float[Array, "*B V"]:
        """(hidden D^-0.5 E2^T) E1^T, in float32."""
        return logits(*self.factors.output(hidden))

    def log_probabilities(self, hidden: Float[Array, "B D"]) -> Float[Array, "B V"]:
        """The log-probabilities of all V tokens, for decoding."""
        return jax.nn.log_softmax(self.logits(hidden))

    def log_likelihood(self, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood", "smooth_log_likelihood" and "log_normalizer", [B T]."""
        return log_likelihood(*self.factors.output(hidden), targets)
