"""Routing of tokens to experts.

Switch routing is Fedus et al. 2021 (arXiv 2101.03961), equations 1 to 6: y = p_e(x) E_e(x) for e = argmax_i p_i(x).
Routing to the two best experts is Lepikhin et al. 2020 (arXiv 2006.16668), algorithm 1.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.kernels.largest import largest


class Routing(NamedTuple):
    """The assignment of tokens to places of experts.

    `dispatch` [G S E C] is True where a token takes a place, and `combine` [G S E C] is `dispatch` times the gate.
    `balance` [G] is the balance loss of each group, which is 1 if all experts are chosen equally often. `dropped` [G]
    is the share of dropped tokens.

    >>> Routing._fields
    ('dispatch', 'combine', 'balance', 'dropped')
    """

    dispatch: Bool[Array, "G S E C"]
    combine: Float[Array, "G S E C"]
    balance: Float[Array, "G"]
    dropped: Float[Array, "G"]


def switch_routing(logits: Float[Array, "G S E"], *, capacity: int, real: Bool[Array, "G S"] | None = None) -> Routing:
    """Routes each token to the expert with the largest p = softmax(logits). An expert has `capacity` places per group.

    Tokens take places in the order of the sequence. Tokens without a place are dropped: no expert processes them, and
    their output is 0. The balance loss is E sum_e f_e P_e (equation 4, without alpha), where f_e is the share of the
    group's tokens that chose e and P_e the mean of p_e; its gradient goes through P. Padding tokens (`real` False) take
    no place, have output 0 and are not counted. Computed in float32. Raises ValueError if `capacity` is below 1.

    >>> logits = jnp.array([[[2.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])  # two tokens prefer expert 0
    >>> routing = switch_routing(logits, capacity=1)
    >>> print(routing.dispatch.any(axis=-1).astype(int))  # the second finds no place
    [[[1 0]
      [0 0]
      [0 1]]]
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
    """Routes each token to the experts with its two largest p.

    The gates are g1 = p1 / (p1 + p2) and g2 = p2 / (p1 + p2). With a `key`, the second expert is used with probability
    min(1, g2 / threshold); without a key, it is used if g2 > threshold, so never from a threshold of 0.5 on. The
    threshold of algorithm 1 is 0.5, and 0.2 is that of Mesh TensorFlow. All first choices of a group take places before
    the second choices, each in the order of the tokens. The first choice of a later token can therefore take the place
    that the second choice of an earlier token needs. A choice without a place adds 0 to the output, and the other gate
    does not change. A token without any place is dropped. The balance loss is that of the Switch layer for the first
    choices.

    `real` is as in `switch_routing`. Computed in float32. Raises ValueError if `capacity` is below 1 or if there are
    fewer than two experts.

    >>> logits = jnp.array([[[2.0, 1.5, 0.0]]])
    >>> routing = top_2_routing(logits, capacity=1)
    >>> print(routing.combine.sum(axis=-1))  # the probabilities of the best two experts, which sum to 1
    [[[0.62 0.38 0.  ]]]
    """
    gates = _gates(logits, capacity)
    if gates.shape[-1] < 2:
        raise ValueError(f"logits: axis E: expected at least 2 experts, got {gates.shape[-1]}")
    # Two calls of argmax, because `lax.top_k` is not partitioned and would gather the tokens of all devices.
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
    """Returns (choices that get a place [G S E], their places [G S E C]). `before` [G 1 E] places are already taken."""
    place = (jnp.cumsum(chosen, axis=1) - 1.0 + before) * chosen
    kept = jnp.where(place < capacity, chosen, jnp.zeros_like(chosen))
    places = _one_hot(jnp.sum(place, axis=-1).astype(jnp.int32), capacity)
    return kept, kept[..., None] * places[:, :, None, :]


def _balance(chosen: Array, gates: Array, real: Array | None) -> Float[Array, "G"]:
    return gates.shape[-1] * jnp.sum(_mean(real, chosen) * _mean(real, gates), axis=-1)


def _only(real: Array | None, chosen: Array) -> Array:
    """Zeroes the choices of padding tokens."""
    return chosen if real is None else jnp.where(real[..., None], chosen, jnp.zeros_like(chosen))


def _mean(real: Array | None, x: Array) -> Array:
    """The mean over the non-padding tokens of a group (axis 1), or 0 if there are none."""
    if real is None:
        return jnp.mean(x, axis=1)
    real = real.reshape(*real.shape, *(1,) * (x.ndim - 2))
    total = jnp.sum(jnp.where(real, x, jnp.zeros_like(x)), axis=1)
    return total / jnp.maximum(jnp.sum(real, axis=1, dtype=x.dtype), 1.0)


def _dropped(real: Array | None, placed: Array) -> Float[Array, "G"]:
    """The share of non-padding tokens of a group without a place, or 0 if all tokens are padding."""
    share = 1.0 - _mean(real, placed)
    return share if real is None else jnp.where(jnp.any(real, axis=1), share, jnp.zeros_like(share))
