"""One table for source, target and output: Press & Wolf 2017, as used by Vaswani et al. 2017, section 3.4."""

from __future__ import annotations

import math
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float, Int

from attention_research.kernels.cross_entropy import chunked_log_likelihood
from attention_research.kernels.integers import as_int32
from attention_research.kernels.precision import einsum
from attention_research.parallel.rules import ROWS, SEQUENCE
from attention_research.parallel.scope import over_axes
from attention_research.signatures import Positive


def embed(table: Float[Array, "V D"], ids: Int[Array, "*B"], dtype: str) -> Float[Array, "*B D"]:
    """The embeddings table[ids] sqrt(D), in the compute dtype, which all later layers keep."""
    return table[as_int32("ids", ids)].astype(dtype) * jnp.asarray(math.sqrt(table.shape[-1]), dtype)


def logits(hidden: Float[Array, "*B D"], kernel: Float[Array, "D V"]) -> Float[Array, "*B V"]:
    """The logits hidden kernel, in float32."""
    return einsum("...D,DV->...V", hidden, kernel.astype(hidden.dtype))


def log_likelihood(
    hidden: Float[Array, "B T D"],
    kernel: Float[Array, "D V"],
    targets: Int[Array, "B T"],
    bias: Float[Array, "V"] | None = None,
) -> dict[str, Float[Array, "B T"]]:
    """Per-token log p of the targets, mean of log p over the vocabulary, and log Z, computed in chunks of rows.

    The mean serves label smoothing, and log Z, the logsumexp of the logits, the z-loss.
    """

    def one(hidden: Array, targets: Array, kernel: Array, bias: Array | None) -> tuple[Array, Array, Array]:
        rows = hidden.reshape(-1, hidden.shape[-1])
        of_target, mean, total = chunked_log_likelihood(rows, kernel, targets.reshape(-1), bias=bias)
        return of_target.reshape(targets.shape), mean.reshape(targets.shape), total.reshape(targets.shape)

    tokens, whole = PartitionSpec(ROWS, SEQUENCE), PartitionSpec()
    of_target, mean, total = over_axes(one, tokens, tokens, whole, whole)(hidden, targets, kernel, bias)
    return {"log_likelihood": of_target, "smooth_log_likelihood": mean, "log_normalizer": total}


class TiedEmbeddings(nnx.Module):
    """A table [V D] from N(0, 1/D) for source and target embeddings, times sqrt(D), and for the logits."""

    def __init__(
        self, *, vocabulary_size: Positive, width: Positive, dtype: Literal["float32", "bfloat16"], rngs: nnx.Rngs
    ):
        self.dtype = dtype
        self.table = nnx.Param(jax.random.normal(rngs.params(), (vocabulary_size, width), jnp.float32) * width**-0.5)

    def source(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of source tokens."""
        return embed(self.table[...], ids, self.dtype)

    def target(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of target tokens."""
        return embed(self.table[...], ids, self.dtype)

    def logits(self, hidden: Float[Array, "*B D"]) -> Float[Array, "*B V"]:
        """The logits hidden table^T, in float32."""
        return logits(hidden, self.table[...].T)

    def log_probabilities(self, hidden: Float[Array, "B D"]) -> Float[Array, "B V"]:
        """The log-probabilities of all V tokens, for decoding."""
        return jax.nn.log_softmax(self.logits(hidden))

    def log_likelihood(self, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood", "smooth_log_likelihood" and "log_normalizer", [B T]."""
        return log_likelihood(hidden, self.table[...].T, targets)
