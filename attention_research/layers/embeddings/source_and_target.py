"""Untied tables for source, target and output, as in recurrent translation models.

Sutskever et al. 2014; Bahdanau et al. 2015, whose embeddings have width m and whose output layer takes a readout of
width l.
"""

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


class SourceAndTargetVocabulary(nnx.Module):
    """Tables [V M] from N(0, 1/M), without a factor sqrt(M), and an output kernel [O V] with an optional bias [V].

    `source_vocabulary_size` None means that source and target share one vocabulary.
    """

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        source_vocabulary_size: Positive | None = None,
        use_bias: bool = True,
        dtype: Literal["float32", "bfloat16"],
        embedding_width: Given[int],
        output_width: Given[int],
        rngs: nnx.Rngs,
    ):
        def table(rows: int) -> nnx.Param:
            values = jax.random.normal(rngs.params(), (rows, embedding_width), jnp.float32)
            return nnx.Param(values * embedding_width**-0.5)

        self.dtype = dtype
        self.source_table = table(source_vocabulary_size or vocabulary_size)
        self.target_table = table(vocabulary_size)
        self.output_kernel = nnx.Param(glorot_uniform(rngs.params(), (output_width, vocabulary_size), jnp.float32))
        self.output_bias = nnx.Param(jnp.zeros((vocabulary_size,), jnp.float32)) if use_bias else None

    def source(self, ids: Int[Array, "*B"]) -> Float[Array, "*B M"]:
        """The embeddings of source tokens."""
        return self.source_table[...][as_int32("ids", ids)].astype(self.dtype)

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B M"]:
        """The embeddings of target tokens."""
        return self.target_table[...][as_int32("ids", ids)].astype(self.dtype)

    def logits(self, hidden: Float[Array, "*B O"]) -> Float[Array, "*B V"]:
        """The logits hidden kernel + bias, in float32."""
        values = logits(hidden, self.output_kernel[...])
        return values if self.output_bias is None else values + self.output_bias[...]

    def log_probabilities(self, hidden: Float[Array, "B O"]) -> Float[Array, "B V"]:
        """The log-probabilities of all V tokens, for decoding."""
        return jax.nn.log_softmax(self.logits(hidden))

    def log_likelihood(self, hidden: Float[Array, "B T O"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood", "smooth_log_likelihood" and "log_normalizer", [B T]."""
        bias = None if self.output_bias is None else self.output_bias[...]
        return log_likelihood(hidden, self.output_kernel[...], targets, bias)
