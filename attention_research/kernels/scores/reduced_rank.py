"""Reduced-rank multiplicative scores, Britz, Goldie, Luong & Le 2017 (arXiv 1703.03906), section 4.5:
e_ij = (U q_i)^T (V k_j).

The bilinear form with W = U^T V of rank R: R (Dq + Dk) parameters instead of Dq Dk. This is the paper's Mul-R, which it
trains without a scale; the variance of such a score grows with R, the usual explanation of why Mul-1024 fell behind
there. For the scaled form multiply the scores by 1 / sqrt(R).
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
    """(U q_i)^T (V k_j) for every query and key, in float32. Raises ValueError naming the argument and the axis."""
    check_scores(
        (query, "B T Dq"), (keys, "B S Dk"), query_factor=(query_factor, "R Dq"), key_factor=(key_factor, "R Dk")
    )
    query = jnp.einsum("BTD,RD->BTR", query, query_factor.astype(query.dtype))
    keys = jnp.einsum("BSD,RD->BSR", keys, key_factor.astype(keys.dtype))
    return einsum("BTR,BSR->BTS", query, keys)
