"""GPT-2's vocabulary, Radford et al. 2019: one table, which embeds as it is and gives the logits; here with a bias.

The released models have no bias: one of zeros is the same, and of -1e4 takes a row out of the softmax.
"""

from __future__ import annotations

from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.layers.embeddings.tied_with_bias import TiedEmbeddingsWithBias


class UnscaledVocabulary(TiedEmbeddingsWithBias):
    """The table [V D], N(0, 1/D), embeds without a factor; logits are hidden table^T + b, b [V] zero at the start."""

    def source(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """Embeddings of source tokens."""
        return self.table[...][as_int32("ids", ids)].astype(self.dtype)

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """Embeddings of target tokens."""
        return self.source(ids)
