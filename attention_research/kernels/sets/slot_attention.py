"""Slot attention, Locatello et al. 2020 (arXiv 2006.15055), equations 1 and 2: softmax_M(Q K^T / sqrt(D)), mean of V.

    A_ms = softmax over the slots m of (q_m k_s / sqrt(D)),    W_ms = (A_ms + epsilon) / sum_s' (A_ms' + epsilon)
    update_m = sum_s W_ms v_s

The softmax is over the slots: they compete for each input. A slot then takes the weighted mean of its inputs. The model
computes a few rounds, in which a recurrent cell moves each slot by its update (`models.slot_encoder`). Algorithm 1 adds
epsilon to the weights of the mean.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.precision import einsum
from attention_research.kernels.shapes import check_shapes


def slot_attention(
    query: Float[Array, "B M D"],
    key: Float[Array, "B S D"],
    value: Float[Array, "B S Dv"],
    mask: Bool[Array, "B S"] | None = None,
    *,
    epsilon: float = 1e-8,
) -> tuple[Float[Array, "B M Dv"], Float[Array, "B M S"]]:
    """(the update of each of M slots, A: the share of each input that each slot takes, which sums to 1 over the slots).

    `mask` is True at inputs that are not padding; the others have shares of 0 and are not counted. If there are none,
    the updates are 0. Raises ValueError naming the argument and the axis.

    >>> key = jnp.eye(2)[None]
    >>> updates, shares = slot_attention(30 * key, key, jnp.array([[[5.0], [7.0]]]))  # each slot takes its own input
    >>> print(shares[0], updates[0].ravel())
    [[1. 0.]
     [0. 1.]] [5. 7.]
    """
    check_shapes(query=(query, "B M D"), key=(key, "B S D"), value=(value, "B S Dv"), mask=(mask, "B S"))
    scores = einsum("BMD,BSD->BMS", query, key) * query.shape[-1] ** -0.5
    shares = jax.nn.softmax(scores, axis=1)
    weights = shares + jnp.asarray(epsilon, shares.dtype)
    if mask is not None:
        shares, weights = (jnp.where(mask[:, None], x, jnp.zeros_like(x)) for x in (shares, weights))
    total = jnp.sum(weights, axis=2, keepdims=True)
    weights = weights / jnp.where(total == 0, jnp.ones_like(total), total)
    updates = einsum("BMS,BSD->BMD", weights.astype(value.dtype), value)
    return updates.astype(value.dtype), shares.astype(value.dtype)
