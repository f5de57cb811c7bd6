"""General (bilinear) scores, Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1: e_ij = q_i^T W k_j.

It is also called multiplicative. It is linear in the query and in the key, whose widths may differ. With the identity
as W, it is the dot product. `reduced_rank_scores` has the same form with W = U^T V of low rank.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from attention_research.kernels.precision import einsum
from attention_research.kernels.scores.arguments import check_scores


def general_scores(
    query: Float[Array, "B T Dq"], keys: Float[Array, "B S Dk"], weight: Float[Array, "Dq Dk"]
) -> Float[Array, "B T S"]:
    """q_i^T W k_j for all queries and keys, in float32. q_i^T W, T rows of width Dk, is computed first.

    Raises ValueError naming the argument and the axis.

    >>> query, keys, weight = jnp.ones((1, 2, 3)), jnp.ones((1, 5, 4)), jnp.ones((3, 4))
    >>> general_scores(query, keys, weight).shape
    (1, 2, 5)
    """
    check_scores((query, "B T Dq"), (keys, "B S Dk"), weight=(weight, "Dq Dk"))
    projected = jnp.einsum("BTQ,QK->BTK", query, weight.astype(query.dtype))
    return einsum("BTK,BSK->BTS", projected, keys)
