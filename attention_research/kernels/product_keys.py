"""Product keys, Lample et al. 2019 (arXiv 1907.05242), section 3.2: the best of C^2 keys found among 2 C sub-keys.

Key (i, j) is the concatenation of sub-key i of a first set and sub-key j of a second, so a query (q1, q2) scores it by
q1 . c_i + q2 . c'_j, and each of the k best pairs is made of the k best of either set.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from attention_research.kernels.precision import einsum


def product_key_search(
    query: Float[Array, "*B N 2 H"], keys: Float[Array, "N 2 C H"], *, knn: int
) -> tuple[Float[Array, "*B N K"], Int[Array, "*B N K"]]:
    """(scores, indices) of the `knn` best keys of each head, best first; key (i, j) has index i C + j.

    Computed in the query's dtype with sums and scores in float32. Raises ValueError where there are fewer sub-keys.
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
