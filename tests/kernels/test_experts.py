"""switch_routing against loops over tokens, in float64."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import switch_routing, top_2_routing

G, S, E = 3, 11, 4


def loops(logits: np.ndarray, capacity: int):
    """(dispatch, combine, balance, dropped), one token at a time, as in section 2 of the paper."""
    dispatch, combine = np.zeros((2, G, S, E, capacity))
    balance, dropped = np.zeros((2, G))
    for g in range(G):
        taken, chosen, mass = np.zeros(E, int), np.zeros(E), np.zeros(E)
        for s in range(S):
            p = np.exp(logits[g, s]) / np.exp(logits[g, s]).sum()
            e = int(np.argmax(p))
            chosen[e] += 1
            mass += p
            if taken[e] < capacity:
                dispatch[g, s, e, taken[e]] = 1
                combine[g, s, e, taken[e]] = p[e]
                taken[e] += 1
            else:
                dropped[g] += 1 / S
        balance[g] = E * np.sum(chosen / S * mass / S)
    return dispatch, combine, balance, dropped


@pytest.mark.parametrize("capacity", (1, 2, 11))
def test_routing_is_the_papers_token_by_token(capacity):
    logits = np.random.default_rng(0).standard_normal((G, S, E)) + [0.5, 0.0, 0.0, 0.0]
    got = switch_routing(jnp.asarray(logits, jnp.float32), capacity=capacity)
    for one, other in zip(got, loops(logits, capacity), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert (np.asarray(got.dropped) > 0).any() == (capacity < 11)


@pytest.mark.slow
def test_the_balance_is_one_for_uniform_routing_and_its_gradient_balances():
    even = jnp.tile(20.0 * jnp.eye(E), (1, 3, 1))
    assert switch_routing(even, capacity=4).balance == pytest.approx(1.0)
    uneven = jnp.zeros((1, S, E)).at[..., 0].set(1.0)
    balance = lambda logits: switch_routing(logits, capacity=4).balance.sum()
    assert balance(uneven) > 1.5
    slope = jax.grad(balance)(uneven)
    assert (slope[..., 0] > 0).all() and (slope[..., 1:] < 0).all()


def test_zero_capacity_is_an_error():
    with pytest.raises(ValueError, match="capacity: expected at least 1, got 0"):
        switch_routing(jnp.zeros((G, S, E)), capacity=0)


@pytest.mark.parametrize("route", [switch_routing, top_2_routing])
def test_padding_does_not_take_places_and_does_not_count(route):
    """Rows with padding in front, between and behind route their real tokens like those tokens alone."""
    logits = np.random.default_rng(0).standard_normal((1, 6, 3)).astype(np.float32)
    at = np.array([1, 2, 4, 5, 6, 8])
    padded, real = np.full((1, 10, 3), 7.0, np.float32), np.zeros((1, 10), bool)
    padded[:, at], real[:, at] = logits, True
    route = jax.jit(functools.partial(route, capacity=2))
    alone = route(jnp.asarray(logits))
    found = route(jnp.asarray(padded), real=jnp.asarray(real))
    np.testing.assert_array_equal(found.dispatch[:, at], alone.dispatch)
    np.testing.assert_allclose(found.combine[:, at], alone.combine, rtol=1e-6)
    np.testing.assert_allclose(found.balance, alone.balance, rtol=1e-6)
    np.testing.assert_allclose(found.dropped, alone.dropped, atol=1e-6)
    assert not np.any(np.asarray(found.dispatch)[~real])
    nothing = route(jnp.asarray(padded), real=jnp.zeros((1, 10), bool))
    assert all(np.all(np.asarray(x) == 0) for x in nothing)
