"""Switch routing, Fedus et al. 2021 (arXiv 2101.03961), equations 1 to 6: y = p_e(x) E_e(x) for e = argmax_i p_i(x)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


class Routing(NamedTuple):
    """Which token takes which place of which expert: `dispatch` and, times the gate, `combine`, both [G S E C]; each
    group's `balance` loss [G], 1 where all experts are chosen alike; the share of tokens `dropped` [G]."""

    dispatch: Bool[Array, "G S E C"]
    combine: Float[Array, "G S E C"]
    balance: Float[Array, "G"]
    dropped: Float[Array, "G"]


def switch_routing(logits: Float[Array, "G S E"], *, capacity: int) -> Routing:
    """Each token to the expert of its largest p = softmax(logits), while that has places: `capacity` for a group.

    Tokens take places in the order of the sequence; those that find none are dropped: no expert, output 0. The balance
    is E sum_e f_e P_e (equation 4, without alpha), f_e the share of the group's tokens that chose e, P_e the mean of
    p_e; its gradient goes through P. In float32. Raises ValueError for a capacity below 1.
    """
    if capacity < 1:
        raise ValueError(f"capacity: expected at least 1, got {capacity}")
    gates = jax.nn.softmax(logits.astype(jnp.float32), axis=-1)
    chosen = jax.nn.one_hot(jnp.argmax(gates, axis=-1), gates.shape[-1], dtype=jnp.float32)
    place = (jnp.cumsum(chosen, axis=1) - 1.0) * chosen
    kept = jnp.where(place < capacity, chosen, jnp.zeros_like(chosen))
    places = jax.nn.one_hot(jnp.sum(place, axis=-1).astype(jnp.int32), capacity, dtype=jnp.float32)
    taken = kept[..., None] * places[:, :, None, :]
    balance = gates.shape[-1] * jnp.sum(jnp.mean(chosen, axis=1) * jnp.mean(gates, axis=1), axis=-1)
    combine = taken * jnp.sum(gates * chosen, axis=-1)[..., None, None]
    return Routing(taken > 0, combine, balance, 1.0 - jnp.mean(jnp.sum(kept, axis=-1), axis=-1))
