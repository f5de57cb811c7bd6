"""Log-linear attention against its definition in float64: Fenwick levels of packed rows, chunks, steps and states."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels.state import (
    log_linear_attention,
    log_linear_step,
    no_log_linear_state,
    state_attention,
)
from attention_research.kernels.state.log_linear import num_levels
from tests.kernels.fenwick import sums_of_levels
from tests.kernels.state_members import draws, members, softplus

T, N, H, HV, L = 21, 2, 5, 3, 7
#: The second row has padding, and segments that begin inside chunks.
REAL = np.ones((2, T), bool)
REAL[1, [3, 4, 12, 20]] = False
RESET = np.zeros((2, T), bool)
RESET[1, [0, 5, 13]] = True
#: Outputs [t n h], t slowest, for draws(4, 2, 4, 2), by an independent program in float64.
PRINTED = (
    "-0.009529 -0.003227 -0.372240 -0.474316 0.246478 0.155577 0.194276 -0.693660 -0.440422 -0.257386 -0.218658 "
    "0.822163 -0.109760 0.200319 -0.050894 0.313158"
)


def inputs(T, N, H, Hv, seed=7):
    """(the inputs of Mamba-2, level weights [T N 3])."""
    drawn = draws(T, N, H, Hv, seed)
    return members(drawn)["mamba2"], softplus(drawn["lam"])


def test_printed_numbers():
    given, weights = inputs(4, 2, 4, 2)
    out = sums_of_levels(given, weights, np.ones(4, bool), np.zeros(4, bool))[0]
    np.testing.assert_allclose(out.ravel(), np.array(PRINTED.split(), float), atol=6e-7)


def close(got, want):
    """Compares (outputs, states, lengths) of both rows."""
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-13)


@pytest.fixture(scope="module")
def rows():
    """(the inputs of two rows, what the definition gives)."""
    alone = [inputs(T, N, H, HV, seed)[0] for seed in (0, 1)]
    weights = np.random.default_rng(3).standard_normal((2, T, N, L))
    want = zip(*(sums_of_levels(alone[b], weights[b], REAL[b], RESET[b]) for b in (0, 1)), strict=True)
    scale = [row.pop("scale") for row in alone][0]
    given = {name: np.stack([x, alone[1][name]]) for name, x in alone[0].items()}
    given |= {"level_weights": weights, "mask": REAL, "reset": RESET}
    return given, scale, tuple(map(np.stack, want))


def test_chunks_and_steps_are_the_definition(rows):
    given, scale, want = rows

    @jax.jit
    def found(given):
        along = {name: x.swapaxes(0, 1) for name, x in given.items()}
        empty = no_log_linear_state(2, N, L, H, HV, jnp.float64)
        state, output = jax.lax.scan(lambda state, now: log_linear_step(state, **now, scale=scale), empty, along)
        return log_linear_attention(**given, scale=scale, chunk_size=4), (output.swapaxes(0, 1), state)

    with jax.enable_x64(True):
        whole, stepped = jax.tree.map(np.asarray, found(given))
    close(whole, want)
    close(stepped, want)


@pytest.mark.slow
def test_other_chunks_and_a_given_state_are_the_definition(rows):
    given, scale, want = rows
    parts = [{name: x[:, start:end] for name, x in given.items()} for start, end in ((0, 9), (9, T))]

    @jax.jit
    def found(given, parts):
        whole = [log_linear_attention(**given, scale=scale, chunk_size=size) for size in (5, 64)]
        _, state = log_linear_attention(**parts[0], scale=scale, chunk_size=4)
        return *whole, log_linear_attention(**parts[1], scale=scale, chunk_size=4, initial_state=state)

    with jax.enable_x64(True):
        *whole, (rest, state) = jax.tree.map(np.asarray, found(given, parts))
    for one in whole:
        close(one, want)
    close((rest, state), (want[0][:, 9:], *want[1:]))


@pytest.mark.slow
def test_equal_weights_are_the_base_mechanism(rows):
    given, scale, _ = rows
    equal, given = np.ones_like(given["level_weights"]), {n: x for n, x in given.items() if n != "level_weights"}
    call = lambda kernel, **given: jax.jit(lambda given: kernel(**given, scale=scale, chunk_size=4))(given)
    with jax.enable_x64(True):
        got = jax.tree.map(np.asarray, call(log_linear_attention, level_weights=equal, **given))
        want = jax.tree.map(np.asarray, call(state_attention, **given))
    close((got[0], got[1].slots.sum(2)), want)


def test_levels_are_refused_beyond_their_length():
    assert [num_levels(length) for length in (1, 2, 3, 4, 5, 8, 9)] == [1, 2, 3, 3, 4, 4, 5]
    array = lambda *axes: jnp.zeros((1, 9, 1, *axes))
    call = lambda L: log_linear_attention(array(2), array(2), array(3), array(L))
    assert jax.eval_shape(lambda: call(5))[0].shape == (1, 9, 1, 3)
    with pytest.raises(ValueError, match="level_weights: axis L: expected at least 5 levels for 9 positions, got 4"):
        jax.eval_shape(lambda: call(4))
