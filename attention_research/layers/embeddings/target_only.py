"""An untied target table and output layer, without a source table, for image captioning (Xu et al. 2015)."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.layers.embeddings.tied import log_likelihood, logits
from attention_research.layers.linear import glorot_uniform
from attention_research.signatures import Given, Positive


class TargetVocabulary(nnx.Module):
    """A table [V M] from N(0, 1/M), an output kernel [O V] (Glorot uniform) and an output bias [V] (zeros).

    Embeddings are not scaled.
    """

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        dtype: Literal["float32", "bfloat16"],
        embedding_width: Given[int],
        output_width: Given[int],
        rngs: nnx.Rngs,
    ):
        self.dtype = dtype
        table = jax.random.normal(rngs.params(), (vocabulary_size, embedding_width), jnp.float32)
        self.table = nnx.Param(table * embedding_width**-0.5)
        self.output_kernel = nnx.Param(glorot_uniform(rngs.params(), (output_width, vocabulary_size), jnp.float32))
        self.output_bias = nnx.Param(jnp.zeros((vocabulary_size,), jnp.float32))

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B M"]:
        """The embeddings of target tokens."""
        return self.table[...][as_int32("ids", ids)].astype(self.dtype)

    def log_probabilities(self, hidden: Float[Array, "B O"]) -> Float[Array, "B V"]:
        """The log-probabilities of all V tokens, for decoding."""
        return jax.nn.log_softmax(logits(hidden, self.output_kernel[...]) + self.output_bias[...])

    def log_likelihood(self, hidden: Float[Array, "B T O"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood", "smooth_log_likelihood" and "log_normalizer", [B T]."""
        return log_likelihood(hidden, self.output_kernel[...], targets, self.output_bias[...])
