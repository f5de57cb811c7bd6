"""Monotonic chunkwise attention (MoChA), Chiu & Raffel 2018 (arXiv 1712.05382), section 2.3:
beta_j = sum_{k=j}^{j+w-1} alpha_k exp(u_j) / sum_{l=k-w+1}^{k} exp(u_l).

This is the expectation, over the stopping position of the monotonic process, of soft attention over the w positions
that end there. With a one-hot alpha, it is the test-time form, the softmax of one chunk. With w = 1, it is alpha.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import softmax_or_zero
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.symbolic import symbolic


def mocha_weights(
    alignment: Float[Array, "B S"],
    chunk_scores: Float[Array, "B S"],
    *,
    chunk_size: int,
    mask: Bool[Array, "B S"] | None = None,
) -> Float[Array, "B S"]:
    """beta of one output step, in float32, from its monotonic alignment alpha and the chunk energies u.

    beta sums to the sum of alpha. The paper's moving sums of exp(u) can overflow, or divide 0 by 0 if the energies in a
    window are far below the maximum of the row. Here each window has its own softmax, which takes S w memory. `mask` is
    True at non-padding positions; padding is in no chunk. Raises ValueError naming the argument and the axis, and for a
    chunk size below 1.

    >>> alignment = jnp.array([[0.0, 0.0, 0.0, 1.0]])  # the chunk ends at position 3
    >>> mocha_weights(alignment, jnp.zeros((1, 4)), chunk_size=2).tolist()
    [[0.0, 0.0, 0.5, 0.5]]
    """
    S = check_shapes(alignment=(alignment, "B S"), chunk_scores=(chunk_scores, "B S"), mask=(mask, "B S"))["S"]
    if chunk_size < 1:
        raise ValueError(f"chunk_size: expected at least 1, got {chunk_size}")
    w = chunk_size if symbolic(S) else min(chunk_size, max(S, 1))
    dtype = accumulator(jnp.promote_types(alignment.dtype, chunk_scores.dtype))
    alignment, scores = alignment.astype(dtype), chunk_scores.astype(dtype)
    if mask is not None:
        alignment, scores = jnp.where(mask, alignment, jnp.zeros_like(alignment)), jnp.where(mask, scores, -jnp.inf)
    # Entry i of the chunk that ends at k is position k - i.
    padded = jnp.pad(scores, ((0, 0), (w - 1, 0)), constant_values=-jnp.inf)
    chunks = jnp.stack([padded[:, w - 1 - i : w - 1 - i + S] for i in range(w)], axis=-1)
    shares = jnp.pad(alignment[..., None] * softmax_or_zero(chunks), ((0, 0), (0, w - 1), (0, 0)))
    return sum((shares[:, i : i + S, i] for i in range(w)), jnp.zeros_like(alignment))
