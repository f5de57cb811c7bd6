"""Likelihoods of a vocabulary whose distribution is not one product and one softmax, a few rows at a time.

Such a vocabulary gives `log_probability_parts`: [B n_1], [B n_2], ..., which side by side are log p over all V tokens.
Here they stay apart: where each part's columns lie on several devices, putting them side by side would move them all.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float, Int

from attention_research.parallel.rules import ROWS, SEQUENCE
from attention_research.parallel.scope import over_axes


def log_likelihood(
    vocabulary: nnx.Module, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"], *, chunk_size: int = 1024
) -> dict[str, Float[Array, "B T"]]:
    """log p of each target, and the mean of log p over the vocabulary, from `vocabulary.log_probability_parts`.

    [B T V] never exists at once: rows go in chunks of at most `chunk_size`, which are computed again for the gradient,
    as `kernels.cross_entropy` does for one softmax.
    """

    def one(hidden: Array, targets: Array, vocabulary: nnx.Module) -> tuple[Array, Array]:
        @jax.checkpoint
        def chunk(part: tuple[Array, Array]) -> tuple[Array, Array]:
            x, target = part
            of_target, total, start = [], [], 0
            for log_p in vocabulary.log_probability_parts(x):
                end = start + log_p.shape[-1]
                chosen = jnp.arange(start, end, dtype=target.dtype) == target[:, None]
                of_target.append(jnp.sum(log_p, axis=-1, where=chosen))
                total.append(jnp.sum(log_p, axis=-1))
                start = end
            return sum(of_target[1:], of_target[0]), sum(total[1:], total[0]) / start

        rows, ids = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1)
        count = max(1, math.ceil(len(ids) / chunk_size))
        padding = -len(ids) % count
        # Chunk i has the rows i, i + count, ...: where rows lie on several devices, each has its share of every chunk.
        x = jnp.pad(rows, ((0, padding), (0, 0))).reshape(-1, count, rows.shape[-1]).swapaxes(0, 1)
        found = lax.map(chunk, (x, jnp.pad(ids, (0, padding)).reshape(-1, count).T))
        return tuple(values.T.reshape(-1)[: len(ids)].reshape(targets.shape) for values in found)

    tokens, whole = PartitionSpec(ROWS, SEQUENCE), PartitionSpec()
    of_target, mean = over_axes(one, tokens, tokens, whole)(hidden, targets, vocabulary)
    return {"log_likelihood": of_target, "smooth_log_likelihood": mean}
