"""Embeddings and output layers of the copying models. Ids outside the vocabulary are read as the unknown word."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.layers.embeddings.tied import log_likelihood, logits
from attention_research.models.copying.extended import known

Dtype = Literal["float32", "bfloat16"]


class TiedVocabulary(nnx.Module):
    """Allamanis et al. 2016: one table E [V D], initialized by N(0, 0.1^2), for embeddings and for logits n E^T + b.

    The released code initializes b with the log frequencies of the names. This module initializes it with 0.
    """

    def __init__(self, *, vocabulary_size: int, width: int, dtype: Dtype, rngs: nnx.Rngs):
        self.dtype = dtype
        self.table = nnx.Param(0.1 * jax.random.normal(rngs.params(), (vocabulary_size, width), jnp.float32))
        self.bias = nnx.Param(jnp.zeros((vocabulary_size,), jnp.float32))

    def embed(self, tokens: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of source or target tokens."""
        return self.table[...][known(tokens, self.table.shape[0])].astype(self.dtype)

    def log_probabilities(self, hidden: Float[Array, "B D"]) -> Float[Array, "B V"]:
        """log p over the vocabulary."""
        return jax.nn.log_softmax(logits(hidden, self.table[...].T) + self.bias[...])

    def log_likelihood(self, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood", "smooth_log_likelihood" and "log_normalizer", [B T]."""
        return log_likelihood(hidden, self.table[...].T, known(targets, self.table.shape[0]), self.bias[...])


class UntiedVocabulary(nnx.Module):
    """See et al. 2017: a table [V D] for source and target, initialized by N(0, 1/D), and an output layer [H V] with a
    bias."""

    def __init__(self, *, vocabulary_size: int, width: int, output_width: int, dtype: Dtype, rngs: nnx.Rngs):
        def normal(*shape: int) -> nnx.Param:
            return nnx.Param(jax.random.normal(rngs.params(), shape, jnp.float32) * width**-0.5)

        self.dtype = dtype
        self.table = normal(vocabulary_size, width)
        self.output_kernel = nnx.Param(
            jax.random.normal(rngs.params(), (output_width, vocabulary_size), jnp.float32) * output_width**-0.5
        )
        self.output_bias = nnx.Param(jnp.zeros((vocabulary_size,), jnp.float32))

    def embed(self, tokens: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of source or target tokens."""
        return self.table[...][known(tokens, self.table.shape[0])].astype(self.dtype)

    def log_probabilities(self, hidden: Float[Array, "B H"]) -> Float[Array, "B V"]:
        """log p over the vocabulary."""
        return jax.nn.log_softmax(logits(hidden, self.output_kernel[...]) + self.output_bias[...])

    def log_likelihood(self, hidden: Float[Array, "B T H"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood", "smooth_log_likelihood" and "log_normalizer", [B T]."""
        targets = known(targets, self.table.shape[0])
        return log_likelihood(hidden, self.output_kernel[...], targets, self.output_bias[...])
