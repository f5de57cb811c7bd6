"""Untied tables for source embeddings, target embeddings and the output layer, as in Bahdanau et al. 2015."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.layers.embeddings.tied import embed, log_likelihood, logits
from attention_research.signatures import Positive


class SeparateVocabulary(nnx.Module):
    """Tables [V D] for source and target embeddings and [D V] for the logits, initialized from N(0, 1/D).

    The embeddings are multiplied by sqrt(D).
    """

    def __init__(
        self, *, vocabulary_size: Positive, width: Positive, dtype: Literal["float32", "bfloat16"], rngs: nnx.Rngs
    ):
        def table(*shape: int) -> nnx.Param:
            return nnx.Param(jax.random.normal(rngs.params(), shape, jnp.float32) * width**-0.5)

        self.dtype = dtype
        self.source_table = table(vocabulary_size, width)
        self.target_table = table(vocabulary_size, width)
        self.output_kernel = table(width, vocabulary_size)

    def source(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of source tokens."""
        return embed(self.source_table[...], ids, self.dtype)

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of target tokens."""
        return embed(self.target_table[...], ids, self.dtype)

    def logits(self, hidden: Float[Array, "*B D"]) -> Float[Array, "*B V"]:
        """The logits hidden kernel, in float32."""
        return logits(hidden, self.output_kernel[...])

    def log_probabilities(self, hidden: Float[Array, "B D"]) -> Float[Array, "B V"]:
        """The log-probabilities of all V tokens, for decoding."""
        return jax.nn.log_softmax(self.logits(hidden))

    def log_likelihood(self, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood", "smooth_log_likelihood" and "log_normalizer", [B T]."""
        return log_likelihood(hidden, self.output_kernel[...], targets)
