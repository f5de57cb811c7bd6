"""Product keys, Lample et al. 2019 (arXiv 1907.05242), section 3.2: a search among C^2 keys with 2 C sub-keys.

Key (i, j) is the concatenation of sub-key i of the first set and sub-key j of the second set. Its score for a query
(q1, q2) is q1 . c_i + q2 . c'_j, so that the k best keys are combinations of the k best sub-keys of each set.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from attention_research.kernels.precision import einsum


def product_key_search(
    query: Float[Array, "*B N 2 H"], keys: Float[Array, "N 2 C H"], *, knn: int
) -> tuple[Float[Array, "*B N K"], Int[Array, "*B N K"]]:
    """Returns (scores, indices) of the `knn` best keys of each head, in descending order. Key (i, j) has index i C + j.

    Products are computed in the query's dtype, sums and scores in float32. Raises ValueError if there are fewer than
    `knn` sub-keys.

    >>> query = jnp.array([[[[1.0], [1.0]]]])  # one query, one head, two halves of width 1
    >>> keys = jnp.array([[[[0.0], [3.0]], [[0.0], [5.0]]]])  # 2 sub-keys a half: 4 keys
    >>> scores, indices = product_key_search(query, keys, knn=2)
    >>> scores.tolist(), indices.tolist()  # key 3 = 1 * 2 + 1 scores 3 + 5
    ([[[8.0, 5.0]]], [[[3, 1]]])
    """
    sub_keys = keys.shape[2]
    if not 1 <= knn <= sub_keys:
        raise ValueError(f"knn: expected from 1 to the number of sub-keys, {sub_keys}, got {knn}")
    scores = einsum("...nph,npch->...npc", query, keys.astype(query.dtype))
    best, where = jax.lax.top_k(scores, knn)
    sums = best[..., 0, :, None] + best[..., 1, None, :]
    pairs = where[..., 0, :, None] * sub_keys + where[..., 1, None, :]
    found, places = jax.lax.top_k(sums.reshape(*sums.shape[:-2], knn * knn), knn)
    return found, jnp.take_along_axis(pairs.reshape(*pairs.shape[:-2], knn * knn), places, axis=-1)
