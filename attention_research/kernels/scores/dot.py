"""Dot-product scores, Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1: e_ij = q_i^T k_j.

It has no parameters, so that queries and keys must have equal widths. The variance of a score is proportional to the
width, which makes the softmax saturate; `scaled_dot_scores` divides by the square root of the width. Unlike
`cosine_scores`, the dot product depends on the norms: a key of twice the norm has twice the score.
"""

from __future__ import annotations

from jaxtyping import Array, Float

from attention_research.kernels.precision import einsum
from attention_research.kernels.scores.arguments import check_scores


def dot_scores(query: Float[Array, "B T D"], keys: Float[Array, "B S D"]) -> Float[Array, "B T S"]:
    """q_i^T k_j for all queries and keys, in float32.

    Raises ValueError naming the argument and the axis, also for unequal widths.

    >>> import jax.numpy as jnp
    >>> dot_scores(jnp.array([[[1.0, 2.0]]]), jnp.array([[[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]])).tolist()
    [[[1.0, 2.0, 6.0]]]
    """
    check_scores((query, "B T D"), (keys, "B S D"))
    return einsum("BTD,BSD->BTS", query, keys)
