"""Scaled dot-product scores, Vaswani et al. 2017 (arXiv 1706.03762), equation 1: e_ij = q_i^T k_j / sqrt(D).

Dot products of independent vectors with unit variance have variance D; scaled dot products have variance 1 at every
width. D is the width of the given keys: in a layer with heads, it is the width of a head, not of the model.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.scores.dot import dot_scores


def scaled_dot_scores(
    query: Float[Array, "B T D"], keys: Float[Array, "B S D"], *, scale: Scale = None
) -> Float[Array, "B T S"]:
    """`dot_scores` times `scale` (default 1 / sqrt(D)), in float32. Raises ValueError naming the argument and axis.

    >>> x = jnp.ones((1, 1, 4))
    >>> scaled_dot_scores(x, x).item()  # 4 / sqrt(4)
    2.0
    """
    scores = dot_scores(query, keys)
    return scores * jnp.asarray(query.shape[-1] ** -0.5 if scale is None else scale, scores.dtype)
