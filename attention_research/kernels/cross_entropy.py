"""Log-likelihoods of a softmax over a large vocabulary, with a bound on the number of logits in memory."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.symbolic import symbolic

#: The maximum number of logits that are kept for the gradient (128 MiB in float32).
KEPT_LOGITS = 2**25
_ROWS = 1024


def chunked_log_likelihood(
    hidden: Float[Array, "M D"],
    kernel: Float[Array, "D V"],
    targets: Int[Array, "M"],
    *,
    bias: Float[Array, "V"] | None = None,
    chunk_size: int | None = None,
) -> tuple[Float[Array, "M"], Float[Array, "M"], Float[Array, "M"]]:
    """Returns (log p of each target, the mean of log p over the vocabulary, log Z), in float32.

    p = exp(logits) / Z is the softmax of logits = hidden kernel + bias. The mean is for label smoothing (Szegedy et al.
    2016): the smoothed loss is -(1 - epsilon) log p[target] - epsilon mean(log p). log Z is for a z-loss, which keeps
    it near 0.

    Up to `KEPT_LOGITS` logits are kept for the gradient. If there are more logits, or if `chunk_size` is given, rows
    are processed in chunks of at most `chunk_size` rows (by default 1,024), and the logits of a chunk are recomputed
    for the gradient. A tied table [V D] is passed as `table.T`. For targets outside 0..V-1, the target's logit counts
    as 0 and log p is -log Z. Raises ValueError naming the axis.

    >>> hidden, kernel, targets = jnp.ones((3, 2)), jnp.zeros((2, 5)), jnp.array([0, 1, 4])  # equal logits of 5 words
    >>> log_likelihood = chunked_log_likelihood(hidden, kernel, targets)[0]
    >>> print(jnp.exp(log_likelihood))
    [0.2 0.2 0.2]
    """
    if kernel.ndim != 2 or kernel.shape[0] != hidden.shape[-1]:
        raise ValueError(f"kernel: axis D of [D V]: expected {hidden.shape[-1]}, got shape {list(kernel.shape)}")
    if targets.shape != hidden.shape[:1]:
        raise ValueError(f"targets: axis M: expected [{hidden.shape[0]}], got shape {list(targets.shape)}")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"chunk_size: expected at least 1, got {chunk_size}")
    targets = as_int32("targets", targets)
    M, D = hidden.shape
    V = kernel.shape[1]
    kept = chunk_size is None and not symbolic(M) and M * V <= KEPT_LOGITS
    count = 1 if symbolic(M) or kept else max(1, math.ceil(M / (chunk_size or _ROWS)))
    rows = M if count == 1 else math.ceil(M / count)
    dtype = accumulator(hidden.dtype)
    weight = kernel.astype(hidden.dtype)
    offset = None if bias is None else bias.astype(dtype)
    # The mean of the logits is linear in the kernel, so that it needs M D operations instead of a pass over [M V].
    mean = jnp.sum(hidden.astype(dtype) * jnp.mean(weight.astype(dtype), axis=1), axis=-1)
    mean = mean if offset is None else mean + jnp.mean(offset)

    def chunk(part: tuple[Array, Array]) -> tuple[Array, Array]:
        x, target = part
        logits = einsum("MD,DV->MV", x, weight)
        if offset is not None:
            logits = logits + offset
        return _of_targets(logits, target)

    if not kept:
        chunk = jax.checkpoint(chunk, policy=jax.checkpoint_policies.save_only_these_names("log_partition"))
    if count == 1:
        of_target, total = chunk((hidden, targets))
        return of_target - total, mean - total, total
    padding = count * rows - M
    # Chunk i has rows i, i + count, ..., so that, if rows are sharded, each device holds a share of every chunk.
    x = jnp.pad(hidden, ((0, padding), (0, 0))).reshape(rows, count, D).swapaxes(0, 1)
    target = jnp.pad(targets, (0, padding)).reshape(rows, count).T
    of_target, total = (values.T.reshape(-1)[:M] for values in lax.map(chunk, (x, target)))
    return of_target - total, mean - total, total


@jax.custom_jvp
def _of_targets(logits: Float[Array, "M V"], targets: Int[Array, "M"]) -> tuple[Float[Array, "M"], Float[Array, "M"]]:
    """Returns (the logit of each target, or 0 if the target is not in 0..V-1; the logsumexp of the logits).

    The gradient of the logsumexp is exp(logits - logsumexp), without a second maximum and sum. The gradient of the
    selection compares indices. The gradient of a gather would be a scatter.
    """
    V = logits.shape[-1]
    inside = (targets >= 0) & (targets < V)
    chosen = jnp.take_along_axis(logits, jnp.clip(targets, 0, V - 1)[:, None], axis=-1)[:, 0]
    return jnp.where(inside, chosen, jnp.zeros_like(chosen)), jax.nn.logsumexp(logits, axis=-1)


@_of_targets.defjvp
def _derivative(primals: Any, tangents: Any) -> tuple[Any, Any]:
    logits, targets = primals
    of_target, total = _of_targets(logits, targets)
    total = checkpoint_name(total, "log_partition")
    chosen = jnp.arange(logits.shape[-1], dtype=jnp.int32) == targets[:, None]
    moved = tangents[0]
    moved_target = jnp.sum(jnp.where(chosen, moved, jnp.zeros_like(moved)), axis=-1)
    return (of_target, total), (moved_target, jnp.sum(jnp.exp(logits - total[:, None]) * moved, axis=-1))
