"""1.5-entmax attention, Peters, Niculae & Martins 2019 (arXiv 1905.05702):
p_ij = [z_ij / 2 - tau_i]_+^2 with z = Q K^T scale and tau_i such that sum_j p_ij = 1, then times V.

The weights are between those of the softmax and of the sparsemax: keys far below the largest have the weight 0. The
paper computes tau by sorting (algorithm 2); for the computation here, see `sparsemax_attention`.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.precision import accumulator
from attention_research.kernels.variants.row_blocks import attend_by_rows
from attention_research.kernels.variants.sparsemax import below_largest, powers_above


def entmax15(logits: Float[Array, "*B S"], visible: Bool[Array, "..."] | None = None) -> Float[Array, "*B S"]:
    """1.5-entmax over the visible entries of the last axis, or 0 with gradient 0 if no entry is visible.

    >>> print(entmax15(jnp.array([1.0, 0.8, -2.0])))
    [0.57 0.43 0.  ]
    """
    if logits.shape[-1] == 0:
        return logits
    dtype, logits = logits.dtype, logits.astype(accumulator(logits.dtype))
    logits = logits if visible is None else jnp.where(visible, logits, -jnp.inf)
    return powers_above(below_largest(logits) / 2, 2, logits > -jnp.inf).astype(dtype)


def entmax15_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    is_causal: bool = False,
    local_window_size: int | tuple[int, int] | None = None,
    query_offset: int | Int[Array, ""] = 0,
    block_size: int = 512,
) -> Float[Array, "B T N Hv"]:
    """entmax_1.5(q k scale) value, with memory linear in the keys.

    `block_size` queries are computed at a time. Other arguments are those of `dot_product_attention`. A query with no
    visible key gives 0 with gradient 0. Raises ValueError naming the argument and the axis.

    >>> x, value = jnp.array([0.0, 2.0]).reshape(1, 2, 1, 1), jnp.eye(2)[None, :, None]  # the result shows the weights
    >>> print(entmax15_attention(x, x, value)[0, :, 0])
    [[0.5 0.5]
     [0.  1. ]]
    """
    return attend_by_rows(
        query, key, value, mask, entmax15, scale=scale, is_causal=is_causal, local_window_size=local_window_size,
        query_offset=query_offset, block_size=block_size,
    )  # fmt: skip
