"""T5's input table with a separate output layer.

This is "Tied encoder/decoder input embeddings" of Narang et al. 2021 (arXiv 2102.11972, Table 1), after Chung et al.
2021 (arXiv 2010.12821), who untie input and output embeddings. It has V D parameters more than `t5`. As in Mesh
TensorFlow, hidden states are not multiplied by D^-0.5 before an untied output kernel: the kernel's variance 1 / D has
the same effect.
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
    """A table [V D] from N(0, 1) embeds source and target tokens without a scale. The logits are hidden kernel.

    The kernel [D V] is initialized from a truncated normal distribution of variance 1 / D; there is no bias.
    """

    def __init__(
        self, *, vocabulary_size: Positive, width: Positive, dtype: Literal["float32", "bfloat16"], rngs: nnx.Rngs
    ):
        self.dtype = dtype
        self.table = nnx.Param(jax.random.normal(rngs.params(), (vocabulary_size, width), jnp.float32))
        self.output_kernel = output_kernel(width, vocabulary_size, rngs)

    def source(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of source tokens."""
        return self.table[...][as_int32("ids", ids)].astype(self.dtype)

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of target tokens."""
        return self.table[...][as_int32("ids", ids)].astype(self.dtype)

    def logits(self, hidden: Float[Array, "*B D"]) -> Float[Array, "*B V"]:
        """The logits hidden kernel, in float32."""
        return logits(hidden, self.output_kernel[...])

    def log_probabilities(self, hidden: Float[Array, "B D"]) -> Float[Array, "B V"]:
        """The log-probabilities of all V tokens, for decoding."""
        return jax.nn.log_softmax(self.logits(hidden))

    def log_likelihood(self, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood", "smooth_log_likelihood" and "log_normalizer", [B T]."""
        return log_likelihood(hidden, self.output_kernel[...], targets)


def output_kernel(width: int, vocabulary_size: int, rngs: nnx.Rngs) -> nnx.Param:
    """A kernel [D V] from a truncated normal distribution of variance 1 / D."""
    return nnx.Param(jax.nn.initializers.lecun_normal()(rngs.params(), (width, vocabulary_size), jnp.float32))
