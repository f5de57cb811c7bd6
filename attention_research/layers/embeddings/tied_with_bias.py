"""One table for source, target and output, with a bias on the logits, as in Marian (Junczys-Dowmunt et al. 2018)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.layers.embeddings.tied import TiedEmbeddings, log_likelihood, logits
from attention_research.signatures import Positive


class TiedEmbeddingsWithBias(TiedEmbeddings):
    """`TiedEmbeddings` with the logits hidden table^T + b, where b [V] is initialized to zeros."""

    def __init__(self, *, vocabulary_size: Positive, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(vocabulary_size=vocabulary_size, rngs=rngs, **inherited)
        self.bias = nnx.Param(jnp.zeros((vocabulary_size,), jnp.float32))

    def logits(self, hidden: Float[Array, "*B D"]) -> Float[Array, "*B V"]:
        """The logits hidden table^T + b, in float32."""
        return logits(hidden, self.table[...].T) + self.bias[...]

    def log_likelihood(self, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood", "smooth_log_likelihood" and "log_normalizer", [B T]."""
        return log_likelihood(hidden, self.table[...].T, targets, self.bias[...])
