"""Which expert takes which token: Switch routing, Fedus et al. 2021 (arXiv 2101.03961), equations 1 to 6, y = p_e(x)
E_e(x) for e = argmax_i p_i(x), and routing to the best two, Lepikhin et al. 2020 (arXiv 2006.16668), algorithm 1."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.kernels.largest import largest


class Routing(NamedTuple):
    """Which token takes which place of which expert: `dispatch` and, times the gate, `combine`, both [G S E C]; each
    group's `balance` loss [G], 1 where all experts are chosen alike; the share of tokens `dropped` [G]."""

    dispatch: Bool[Array, "G S E C"]
    combine: Float[Array, "G S E C"]
    balance: Float[Array, "G"]
    dropped: Float[Array, "G"]


def switch_routing(logits: Float[Array, "G S E"], *, capacity: int, real: Bool[Array, "G S"] | None = None) -> Routing:
    """Each token to the expert of its largest p = softmax(logits), while that has places: `capacity` for a group.

    Tokens take places in the order of the sequence; those that find none are dropped: no expert, output 0. The balance
    is E sum_e f_e P_e (equation 4, without alpha), f_e the share of the group's tokens that chose e, P_e the mean of
    p_e; its gradient goes through P. Tokens where `real` is False are padding: they
    take no place, get output 0 and are not counted. In float32. Raises ValueError for a capacity below 1.
    """
    gates = _gates(logits, capacity)
    chosen = _only(real, _one_hot(jnp.argmax(gates, axis=-1), gates.shape[-1]))
    kept, taken = _seated(chosen, capacity)
    combine = taken * jnp.sum(gates * chosen, axis=-1)[..., None, None]
    return Routing(taken > 0, combine, _balance(chosen, gates, real), _dropped(real, jnp.sum(kept, axis=-1)))


def top_2_routing(
    logits: Float[Array, "G S E"],
    *,
    capacity: int,
    threshold: float = 0.2,
    key: Key[Array, ""] | None = None,
    real: Bool[Array, "G S"] | None = None,
) -> Routing:
    """Each token to the experts of its two largest p, with gates g1 = p1 / (p1 + p2) and g2 = p2 / (p1 + p2).

    With a `key` the second expert is used with probability min(1, g2 / threshold); without one where g2 > threshold.
    All first choices of a group take places before any second one, each in the order of the tokens: a later token's
    first choice can so cost an earlier one its second expert. A choice that finds no place adds 0, and the other gate
    stays as it is; a token without any place is dropped. The balance is the Switch layer's, of first choices.
    `real` is as in `switch_routing`. In float32. Raises ValueError for a capacity below 1 and for fewer than two
    experts.
    """
    gates = _gates(logits, capacity)
    if gates.shape[-1] < 2:
        raise ValueError(f"logits: axis E: expected at least 2 experts, got {gates.shape[-1]}")
    # Twice the best of a token: `lax.top_k` is not partitioned, and would gather the tokens of all devices.
    first, p1 = jnp.argmax(gates, axis=-1), largest(gates, -1)
    others = jnp.where(_one_hot(first, gates.shape[-1]) > 0, -1.0, gates)
    second, p2 = jnp.argmax(others, axis=-1), largest(others, -1)
    g1, g2 = p1 / (p1 + p2 + 1e-9), p2 / (p1 + p2 + 1e-9)
    used = g2 > (threshold if key is None else threshold * jax.random.uniform(key, g2.shape, jnp.float32))
    chosen = _only(real, _one_hot(first, gates.shape[-1]))
    also = _only(real, jnp.where(used[..., None], _one_hot(second, gates.shape[-1]), 0.0))
    kept, taken = _seated(chosen, capacity)
    kept_too, taken_too = _seated(also, capacity, before=jnp.sum(kept, axis=1, keepdims=True))
    combine = g1[..., None, None] * taken + g2[..., None, None] * taken_too
    dropped = _dropped(real, jnp.max(kept + kept_too, axis=-1))
    return Routing((taken + taken_too) > 0, combine, _balance(chosen, gates, real), dropped)


def _gates(logits: Array, capacity: int) -> Float[Array, "G S E"]:
    if capacity < 1:
        raise ValueError(f"capacity: expected at least 1, got {capacity}")
    return jax.nn.softmax(logits.astype(jnp.float32), axis=-1)


def _one_hot(indices: Int[Array, "*A"], size: int) -> Float[Array, "*A E"]:
    return jax.nn.one_hot(indices, size, dtype=jnp.float32)


def _seated(chosen: Array, capacity: int, before: Array | float = 0.0) -> tuple[Array, Array]:
    """(the choices that find a place [G S E], the places that they take [G S E C]); `before` [G 1 E] are taken."""
    place = (jnp.cumsum(chosen, axis=1) - 1.0 + before) * chosen
    kept = jnp.where(place < capacity, chosen, jnp.zeros_like(chosen))
    places = _one_hot(jnp.sum(place, axis=-1).astype(jnp.int32), capacity)
    return kept, kept[..., None] * places[:, :, None, :]


def _balance(chosen: Array, gates: Array, real: Array | None) -> Float[Array, "G"]:
    return gates.shape[-1] * jnp.sum(_mean(real, chosen) * _mean(real, gates), axis=-1)


def _only(real: Array | None, chosen: Array) -> Array:
    """The choices of real tokens."""
    return chosen if real is None else jnp.where(real[..., None], chosen, jnp.zeros_like(chosen))


def _mean(real: Array | None, x: Array) -> Array:
    """The mean over the real tokens of a group, axis 1; 0 without any."""
    if real is None:
        return jnp.mean(x, axis=1)
    real = real.reshape(*real.shape, *(1,) * (x.ndim - 2))
    total = jnp.sum(jnp.where(real, x, jnp.zeros_like(x)), axis=1)
    return total / jnp.maximum(jnp.sum(real, axis=1, dtype=x.dtype), 1.0)


def _dropped(real: Array | None, placed: Array) -> Float[Array, "G"]:
    """The share of a group's real tokens without a place; 0 where all is padding."""
    share = 1.0 - _mean(real, placed)
    return share if real is None else jnp.where(jnp.any(real, axis=1), share, jnp.zeros_like(share))
