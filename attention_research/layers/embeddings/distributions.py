"""Chunked likelihoods of vocabularies whose distribution is not the softmax of one matrix product.

Such a vocabulary has a method `log_probability_parts`. It returns parts [B n_1], [B n_2], ..., whose concatenation is
log p over all V tokens, and log Z [B], or None if the parts are not a single softmax. The parts are not concatenated
here: if their columns are sharded over devices, concatenation would move all of them.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.parallel.rules import ROWS, SEQUENCE
from attention_research.parallel.scope import over_axes


def log_likelihood(
    vocabulary: nnx.Module, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"], *, chunk_size: int = 1024
) -> dict[str, Float[Array, "B T"]]:
    """Per-token log p of the targets, mean of log p over the vocabulary, and log Z if the vocabulary has one.

    The values come from `vocabulary.log_probability_parts`. The array [B T V] is never formed: rows are processed in
    chunks of at most `chunk_size`, which are recomputed for the gradient, as `kernels.cross_entropy` does for one
    softmax.
    """

    def one(hidden: Array, targets: Array, vocabulary: Any) -> dict[str, Array]:
        @jax.checkpoint
        def chunk(part: tuple[Array, Array]) -> dict[str, Array]:
            x, target = part
            of_target, total, start = [], [], 0
            parts, log_normalizer = vocabulary.log_probability_parts(x)
            for log_p in parts:
                end = start + log_p.shape[-1]
                chosen = jnp.arange(start, end, dtype=jnp.int32) == target[:, None]
                of_target.append(jnp.sum(log_p, axis=-1, where=chosen))
                total.append(jnp.sum(log_p, axis=-1))
                start = end
            mean = sum(total[1:], total[0]) / start
            values = {"log_likelihood": sum(of_target[1:], of_target[0]), "smooth_log_likelihood": mean}
            return values if log_normalizer is None else {**values, "log_normalizer": log_normalizer}

        rows, ids = hidden.reshape(-1, hidden.shape[-1]), as_int32("targets", targets).reshape(-1)
        count = max(1, math.ceil(len(ids) / chunk_size))
        padding = -len(ids) % count
        # Chunk i has rows i, i + count, ..., so that, if rows are sharded, each device holds a share of every chunk.
        x = jnp.pad(rows, ((0, padding), (0, 0))).reshape(-1, count, rows.shape[-1]).swapaxes(0, 1)
        found = lax.map(chunk, (x, jnp.pad(ids, (0, padding)).reshape(-1, count).T))
        return {name: values.T.reshape(-1)[: len(ids)].reshape(targets.shape) for name, values in found.items()}

    tokens, whole = PartitionSpec(ROWS, SEQUENCE), PartitionSpec()
    return over_axes(one, tokens, tokens, whole)(hidden, targets, vocabulary)
