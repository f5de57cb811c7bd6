"""Copy distribution, See, Liu & Manning 2017 (arXiv 1704.04368), equation 9, second term: sum_{i: w_i = w} a_i.

The same sum is the copy part of the mixture of Allamanis, Peng & Sutton. The weights of positions with the same token
are added. The result sums to the sum of the weights that are counted.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes


def copy_distribution(
    weights: Float[Array, "B T S"],
    source_ids: Int[Array, "B S"],
    vocabulary_size: int,
    *,
    mask: Bool[Array, "B S"] | None = None,
) -> Float[Array, "B T V"]:
    """Converts attention weights over positions to a distribution over the tokens at these positions, in float32.

    `mask` is True at non-padding source positions. Weights of padding positions are dropped, and so are the weights of
    ids outside 0..V-1 (negative ids do not count from the end). It is a scatter of cost O(B T (S + V)), without a [S V]
    matrix. Raises ValueError naming the axis.

    >>> copy_distribution(jnp.array([[[0.5, 0.25, 0.25]]]), jnp.array([[3, 1, 3]]), 5)[0, 0].tolist()
    [0.0, 0.25, 0.0, 0.75, 0.0]
    """
    check_shapes(weights=(weights, "B T S"), source_ids=(source_ids, "B S"), mask=(mask, "B S"))
    source_ids = as_int32("source_ids", source_ids)
    known = (source_ids >= 0) & (source_ids < vocabulary_size)
    known = known if mask is None else known & mask
    ids = jnp.where(known, source_ids, vocabulary_size)
    weights = weights.astype(accumulator(weights.dtype))

    def scatter(of_one: Array, ids: Array) -> Array:
        empty = jnp.zeros((vocabulary_size, of_one.shape[0]), of_one.dtype)
        return empty.at[ids].add(of_one.T, mode="drop").T

    return jax.vmap(scatter)(weights, ids)
