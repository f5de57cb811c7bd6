"""T5's vocabulary, Raffel et al. 2020, following the released code: one table for embeddings and logits.

Embeddings are not scaled. The decoder's output is multiplied by D^-0.5 before the product with the table (Mesh
TensorFlow's shared embedding and softmax). With a table of unit variance, embeddings and logits are both of order 1.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.layers.embeddings.tied import TiedEmbeddings
from attention_research.signatures import Positive


class T5Vocabulary(TiedEmbeddings):
    """A table [V D] from N(0, 1). It embeds source and target tokens, and the logits are hidden D^-0.5 table^T."""

    def __init__(
        self, *, vocabulary_size: Positive, width: Positive, dtype: Literal["float32", "bfloat16"], rngs: nnx.Rngs
    ):
        self.dtype = dtype
        self.table = nnx.Param(jax.random.normal(rngs.params(), (vocabulary_size, width), jnp.float32))

    def source(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of source tokens."""
        return self.table[...][as_int32("ids", ids)].astype(self.dtype)

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of target tokens."""
        return self.table[...][as_int32("ids", ids)].astype(self.dtype)

    def logits(self, hidden: Float[Array, "*B D"]) -> Float[Array, "*B V"]:
        """The logits hidden D^-0.5 table^T, in float32."""
        return super().logits(scaled(hidden))

    def log_likelihood(self, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood", "smooth_log_likelihood" and "log_normalizer", [B T]."""
        return super().log_likelihood(scaled(hidden), targets)


def scaled(hidden: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
    """Multiplies hidden by D^-0.5."""
    return hidden * jnp.asarray(hidden.shape[-1] ** -0.5, hidden.dtype)
