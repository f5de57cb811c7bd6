"""Log-likelihood of a softmax over a large vocabulary, without the [M V] logits ever existing at once."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.symbolic import symbolic


def chunked_log_likelihood(
    hidden: Float[Array, "M D"],
    kernel: Float[Array, "D V"],
    targets: Int[Array, "M"],
    *,
    bias: Float[Array, "V"] | None = None,
    chunk_size: int = 1024,
) -> tuple[Float[Array, "M"], Float[Array, "M"], Float[Array, "M"]]:
    """(log p of each target, the mean of log p over the vocabulary, log Z), float32, of p = exp(logits) / Z, the
    softmax of logits = hidden kernel + bias.

    The mean is what label smoothing needs (Szegedy et al. 2016): the smoothed loss is
    -(1 - epsilon) log p[target] - epsilon mean(log p). log Z is what a z-loss holds near 0. Rows go in chunks of at
    most `chunk_size`, and a chunk's logits are computed again for the gradient: on a CPU faster than keeping them, in
    an eighth of the memory. A tied table [V D] is passed as `table.T`. Targets outside 0..V-1 give log p of nothing,
    -logsumexp. Raises ValueError naming the axis.
    """
    if kernel.ndim != 2 or kernel.shape[0] != hidden.shape[-1]:
        raise ValueError(f"kernel: axis D of [D V]: expected {hidden.shape[-1]}, got shape {list(kernel.shape)}")
    if targets.shape != hidden.shape[:1]:
        raise ValueError(f"targets: axis M: expected [{hidden.shape[0]}], got shape {list(targets.shape)}")
    if chunk_size < 1:
        raise ValueError(f"chunk_size: expected at least 1, got {chunk_size}")
    targets = as_int32("targets", targets)
    M, D = hidden.shape
    V = kernel.shape[1]
    count = 1 if symbolic(M) else max(1, math.ceil(M / chunk_size))
    rows = M if count == 1 else math.ceil(M / count)
    dtype = accumulator(hidden.dtype)
    weight = kernel.astype(hidden.dtype)
    offset = None if bias is None else bias.astype(dtype)

    @jax.checkpoint
    def chunk(part: tuple[Array, Array]) -> tuple[Array, Array, Array]:
        x, target = part
        logits = einsum("MD,DV->MV", x, weight)
        if offset is not None:
            logits = logits + offset
        total = jax.nn.logsumexp(logits, axis=-1)
        # A comparison instead of a gather: its gradient is fused with the softmax's, not scattered.
        chosen = jnp.sum(
            jnp.where(jnp.arange(V, dtype=jnp.int32) == target[:, None], logits, jnp.zeros_like(logits)), axis=-1
        )
        return chosen - total, jnp.mean(logits, axis=-1) - total, total

    if count == 1:
        return chunk((hidden, targets))
    padding = count * rows - M
    # Chunk i has the rows i, i + count, ...: where rows lie on several devices, each has its share of every chunk.
    x = jnp.pad(hidden, ((0, padding), (0, 0))).reshape(rows, count, D).swapaxes(0, 1)
    target = jnp.pad(targets, (0, padding)).reshape(rows, count).T
    of_target, mean, total = (values.T.reshape(-1)[:M] for values in lax.map(chunk, (x, target)))
    return of_target, mean, total
