"""Scaled dot-product scores, Vaswani et al. 2017 (arXiv 1706.03762), equation 1: e_ij = q_i^T k_j / sqrt(D).

The products of independent vectors with unit variance have variance D; the scaled ones have 1 at every width. The scale
is that of the keys as they come: a layer that splits the width into heads scales by the head's width, not the model's.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from attention_research.kernels.scores.dot import dot_scores


def scaled_dot_scores(
    query: Float[Array, "B T D"], keys: Float[Array, "B S D"], *, scale: float | int | None = None
) -> Float[Array, "B T S"]:
    """`dot_scores` times `scale`, by default 1 / sqrt(D); float32. Raises ValueError naming the argument and axis."""
    scores = dot_scores(query, keys)
    return scores * jnp.asarray(query.shape[-1] ** -0.5 if scale is None else scale, scores.dtype)
