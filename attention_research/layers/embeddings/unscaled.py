"""GPT-2's vocabulary, Radford et al. 2019: one table for unscaled embeddings and for the logits, with a bias.

The released models have no bias, which equals a bias of zeros. A bias of -1e4 removes a token from the softmax.
"""

from __future__ import annotations

from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.layers.embeddings.tied_with_bias import TiedEmbeddingsWithBias


class UnscaledVocabulary(TiedEmbeddingsWithBias):
    """A table [V D] from N(0, 1/D). Embeddings are not scaled; the logits are hidden table^T + b.

    The bias b [V] is initialized to zeros.
    """

    def source(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of source tokens."""
        return self.table[...][as_int32("ids", ids)].astype(self.dtype)

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of target tokens."""
        return self.source(ids)
