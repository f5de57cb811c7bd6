"""The vocabulary of GPT-2's released models, Radford et al. 2019: one unscaled table, and no bias on the logits."""

from __future__ import annotations

from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.layers.embeddings.tied import TiedEmbeddings


class UnscaledNoBiasVocabulary(TiedEmbeddings):
    """A table [V D] from N(0, 1/D). Embeddings are not scaled; the logits are hidden table^T."""

    def source(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of source tokens."""
        return self.table[...][as_int32("ids", ids)].astype(self.dtype)

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of target tokens."""
        return self.source(ids)
