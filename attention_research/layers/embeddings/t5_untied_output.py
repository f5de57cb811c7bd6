"""T5's input table with an output layer of its own: "Tied encoder/decoder input embeddings" of Narang et al. 2021
(arXiv 2102.11972, Table 1), after Chung et al. 2021 (arXiv 2010.12821), who untie the two.

V D parameters more than `t5`. As Mesh TensorFlow has it, what meets a kernel of its own is not scaled by D^-0.5: the
kernel's variance 1 / D does what the scale does for a table of unit variance.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.layers.embeddings.tied import log_likelihood, logits
from attention_research.signatures import Positive


class T5UntiedOutputVocabulary(nnx.Module):
    """A table [V D], N(0, 1), embeds source and target as it is; the logits are hidden kernel, without a bias.

    kernel [D V] is a truncated normal of variance 1 / D.
    """

    def __init__(
        self, *, vocabulary_size: Positive, width: Positive, dtype: Literal["float32", "bfloat16"], rngs: nnx.Rngs
    ):
        self.dtype = dtype
        self.table = nnx.Param(jax.random.normal(rngs.params(), (vocabulary_size, width), jnp.float32))
        self.output_kernel = output_kernel(width, vocabulary_size, rngs)

    def source(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """Embeddings of source tokens."""
        return self.table[...][as_int32("ids", ids)].astype(self.dtype)

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """Embeddings of target tokens."""
        return self.table[...][as_int32("ids", ids)].astype(self.dtype)

    def logits(self, hidden: Float[Array, "*B D"]) -> Float[Array, "*B V"]:
        """hidden kernel, in float32."""
        return logits(hidden, self.output_kernel[...])

    def log_probabilities(self, hidden: Float[Array, "B D"]) -> Float[Array, "B V"]:
        """log p over the vocabulary, for decoding (all V of them)."""
        return jax.nn.log_softmax(self.logits(hidden))

    def log_likelihood(self, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood", "smooth_log_likelihood" and "log_normalizer", [B T]."""
        return log_likelihood(hidden, self.output_kernel[...], targets)


def output_kernel(width: int, vocabulary_size: int, rngs: nnx.Rngs) -> nnx.Param:
    """A kernel [D V], truncated normal of variance 1 / D."""
    return nnx.Param(jax.nn.initializers.lecun_normal()(rngs.params(), (width, vocabulary_size), jnp.float32))
