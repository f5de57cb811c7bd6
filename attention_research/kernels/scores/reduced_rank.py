"""Reduced-rank multiplicative scores, Britz, Goldie, Luong & Le 2017 (arXiv 1703.03906), section 4.5:
e_ij = (U q_i)^T (V k_j).

This is the bilinear form with W = U^T V of rank R, with R (Dq + Dk) parameters instead of Dq Dk. It is Mul-R of the
paper, which is trained without a scale. The variance of the scores grows with R, which is the usual explanation for the
worse result of Mul-1024 in the paper. For the scaled form, multiply the scores by 1 / sqrt(R).
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from attention_research.kernels.precision import einsum
from attention_research.kernels.scores.arguments import check_scores


def reduced_rank_scores(
    query: Float[Array, "B T Dq"],
    keys: Float[Array, "B S Dk"],
    query_factor: Float[Array, "R Dq"],
    key_factor: Float[Array, "R Dk"],
) -> Float[Array, "B T S"]:
    """(U q_i)^T (V k_j) for all queries and keys, in float32. Raises ValueError naming the argument and the axis.

    >>> query, keys = jnp.ones((1, 2, 8)), jnp.ones((1, 5, 8))
    >>> factor = jnp.ones((2, 8))  # a bilinear form of rank 2
    >>> reduced_rank_scores(query, keys, factor, factor).shape
    (1, 2, 5)
    """
    check_scores(
        (query, "B T Dq"), (keys, "B S Dk"), query_factor=(query_factor, "R Dq"), key_factor=(key_factor, "R Dk")
    )
    query = jnp.einsum("BTD,RD->BTR", query, query_factor.astype(query.dtype))
    keys = jnp.einsum("BSD,RD->BSR", keys, key_factor.astype(keys.dtype))
    return einsum("BTR,BSR->BTS", query, keys)
