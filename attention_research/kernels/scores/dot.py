"""Dot-product scores, Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1: e_ij = q_i^T k_j.

Nothing is learned, so queries and keys need one width. The variance of a score grows in proportion to that width, and
with it the softmax saturates: `scaled_dot_scores` divides by its root. Where `cosine_scores` sees directions alone,
the dot product also sees lengths: a key twice as long has twice the score.
"""

from __future__ import annotations

from jaxtyping import Array, Float

from attention_research.kernels.precision import einsum
from attention_research.kernels.scores.arguments import check_scores


def dot_scores(query: Float[Array, "B T D"], keys: Float[Array, "B S D"]) -> Float[Array, "B T S"]:
    """q_i^T k_j for every query and key, in float32.

    Raises ValueError naming the argument and the axis, unequal widths among them.

    >>> import jax.numpy as jnp
    >>> dot_scores(jnp.array([[[1.0, 2.0]]]), jnp.array([[[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]])).tolist()
    [[[1.0, 2.0, 6.0]]]
    """
    check_scores((query, "B T D"), (keys, "B S D"))
    return einsum("BTD,BSD->BTS", query, keys)
