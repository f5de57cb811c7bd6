"""Sparsemax attention, Martins & Astudillo 2016 (arXiv 1602.02068), equation 2: p_ij = [z_ij - tau_i]_+ with
z = Q K^T scale and tau_i such that sum_j p_ij = 1, then times V.

The weights are the Euclidean projection of the logits onto the probability simplex. Keys whose logit is at most tau
have the weight 0. The paper computes tau by sorting (algorithm 1); it is the largest of (z_(1) + ... + z_(k) - 1) / k
over k.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.variants.row_blocks import attend_by_rows


def below_largest(logits: Float[Array, "*B S"], least: Float[Array, "..."] | float = -2.0) -> Float[Array, "*B S"]:
    """logits - max, but at least `least`, which is what entries of -inf give. The maximum is constant for derivatives.

    Entries more than 1 / (alpha - 1) below the largest have the weight 0 in alpha-entmax. For the selection between the
    maximum and the difference, see `exp_below`.
    """
    largest = lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))
    largest = jnp.where(largest == -jnp.inf, jnp.zeros_like(largest), largest)
    difference = jnp.where(largest < jnp.inf, logits, jnp.nan) - largest
    return jnp.maximum(jnp.where(difference > 0, jnp.zeros_like(difference), difference), least)


def powers_above(
    z: Float[Array, "*B S"],
    threshold: Float[Array, "*B 1"],
    power: Float[Array, "..."] | float,
    visible: Bool[Array, "*B S"],
) -> Float[Array, "*B S"]:
    """[z - tau]_+^power at the visible entries, for the tau at which they sum to 1.

    `threshold` is this tau except for rounding, and constant for derivatives. Two steps of Newton's method follow. The
    error of a step is quadratic in the distance to the root, so that first and second derivatives of the result are
    those of the exact tau.
    """
    tau = lax.stop_gradient(threshold)

    def raised(tau: Array, power: Array | float) -> Array:
        above = visible & (z > tau)
        return jnp.where(above, jnp.where(above, z - tau, jnp.ones_like(z)) ** power, jnp.zeros_like(z))

    for _ in range(2):
        slope = power * jnp.sum(raised(tau, power - 1), axis=-1, keepdims=True)
        slope = jnp.where(slope > 0, slope, jnp.ones_like(slope))
        tau = tau + (jnp.sum(raised(tau, power), axis=-1, keepdims=True) - 1) / slope
    return raised(tau, power)


def sparsemax(logits: Float[Array, "*B S"], visible: Bool[Array, "..."] | None = None) -> Float[Array, "*B S"]:
    """Sparsemax over the visible entries of the last axis, or 0 with gradient 0 if no entry is visible.

    >>> print(sparsemax(jnp.array([1.0, 0.8, -1.0])))
    [0.6 0.4 0. ]
    """
    if logits.shape[-1] == 0:
        return logits
    logits = logits if visible is None else jnp.where(visible, logits, -jnp.inf)
    z = below_largest(logits)
    ordered = -jnp.sort(-lax.stop_gradient(z), axis=-1)
    rank = jnp.arange(1, z.shape[-1] + 1, dtype=z.dtype)
    threshold = jnp.max((jnp.cumsum(ordered, axis=-1) - 1) / rank, axis=-1, keepdims=True)
    return powers_above(z, threshold, 1.0, logits > -jnp.inf)


def sparsemax_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: float | int | None = None,
    is_causal: bool = False,
    local_window_size: int | tuple[int, int] | None = None,
    query_offset: int | Int[Array, ""] = 0,
    block_size: int = 512,
) -> Float[Array, "B T N Hv"]:
    """sparsemax(q k scale) value, with memory linear in the keys.

    `block_size` queries are computed at a time. Other arguments are those of `dot_product_attention`. A query with no
    visible key gives 0 with gradient 0. Raises ValueError naming the argument and the axis.

    >>> x, value = jnp.array([0.0, 2.0]).reshape(1, 2, 1, 1), jnp.eye(2)[None, :, None]  # the result shows the weights
    >>> print(sparsemax_attention(x, x, value)[0, :, 0])
    [[0.5 0.5]
     [0.  1. ]]
    """
    return attend_by_rows(
        query, key, value, mask, sparsemax, scale=scale, is_causal=is_causal, local_window_size=local_window_size,
        query_offset=query_offset, block_size=block_size,
    )  # fmt: skip
