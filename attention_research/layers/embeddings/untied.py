"""One table for source and target embeddings, and a separate output layer (Zaremba et al. 2014)."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.layers.embeddings.tied import embed, log_likelihood, logits
from attention_research.signatures import Positive


class UntiedVocabulary(nnx.Module):
    """A table [V D] for source and target embeddings, times sqrt(D), and an output kernel [D V] with a bias [V].

    Table and kernel are initialized from N(0, 1/D).
    """

    def __init__(
        self, *, vocabulary_size: Positive, width: Positive, dtype: Literal["float32", "bfloat16"], rngs: nnx.Rngs
    ):
        def normal(*shape: int) -> nnx.Param:
            return nnx.Param(jax.random.normal(rngs.params(), shape, jnp.float32) * width**-0.5)

        self.dtype = dtype
        self.table = normal(vocabulary_size, width)
        self.output_kernel = normal(width, vocabulary_size)
        self.output_bias = nnx.Param(jnp.zeros((vocabulary_size,), jnp.float32))

    def source(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of source tokens."""
        return embed(self.table[...], ids, self.dtype)

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of target tokens."""
        return embed(self.table[...], ids, self.dtype)

    def logits(self, hidden: Float[Array, "*B D"]) -> Float[Array, "*B V"]:
        """The logits hidden kernel + b, in float32."""
        return logits(hidden, self.output_kernel[...]) + self.output_bias[...]

    def log_probabilities(self, hidden: Float[Array, "B D"]) -> Float[Array, "B V"]:
        """The log-probabilities of all V tokens, for decoding."""
        return jax.nn.log_softmax(self.logits(hidden))

    def log_likelihood(self, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood", "smooth_log_likelihood" and "log_normalizer", [B T]."""
        return log_likelihood(hidden, self.output_kernel[...], targets, self.output_bias[...])
