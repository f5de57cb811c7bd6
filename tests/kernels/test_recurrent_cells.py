"""Recurrent cells against their papers' equations in float64 NumPy, and their gradients against finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from attention_research.kernels.recurrent import gru_cell, gru_reset_before_cell, lstm_cell, vanilla_cell

B, I, D = 3, 5, 7
#: cell -> (number of states, number of gates, gates of each bias)
CELLS = {
    lstm_cell: (2, 4, (4,)),
    gru_cell: (1, 3, (3, 1)),
    gru_reset_before_cell: (1, 3, (3,)),
    vanilla_cell: (1, 1, (1,)),
}
every_cell = pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.__name__)


def sigma(x):
    return 1 / (1 + np.exp(-x))


def equation(cell, x, h, c, W, U, b, b_new):
    """The next state(s) of one example, with a separate matrix for each gate, as printed in the papers."""
    W, U, b = (np.split(a, CELLS[cell][1], axis=-1) for a in (W, U, b))
    if cell is vanilla_cell:
        return (np.tanh(x @ W[0] + h @ U[0] + b[0]),)
    if cell is lstm_cell:
        i, f, g, o = (x @ W[k] + h @ U[k] + b[k] for k in range(4))
        c = sigma(f) * c + sigma(i) * np.tanh(g)
        return sigma(o) * np.tanh(c), c
    r, z = (sigma(x @ W[k] + h @ U[k] + b[k]) for k in range(2))
    if cell is gru_cell:
        n = np.tanh(x @ W[2] + b[2] + r * (h @ U[2] + b_new))
        return ((1 - z) * n + z * h,)
    return ((1 - z) * h + z * np.tanh(x @ W[2] + (r * h) @ U[2] + b[2]),)


def arguments(cell, normal):
    states, gates, biases = CELLS[cell]
    kernels = normal(I, gates * D), normal(D, gates * D)
    return normal(B, I), *(normal(B, D) for _ in range(states)), *kernels, *(normal(count * D) for count in biases)


@every_cell
def test_is_the_papers_equation(cell, normal):
    given = arguments(cell, normal)
    states = CELLS[cell][0]
    x, *state, W, U = (np.asarray(a, np.float64) for a in given[: 3 + states])
    b, b_new = (*(np.asarray(a, np.float64) for a in given[3 + states :]), None)[:2]
    got = jax.tree.leaves(jax.jit(cell)(*given))
    for e in range(B):
        wanted = equation(cell, x[e], state[0][e], state[-1][e], W, U, b, b_new)
        for found, expected in zip(got, wanted, strict=True):
            np.testing.assert_allclose(found[e], expected, atol=3e-6)


@every_cell
def test_gradients_are_finite_differences(cell, normal):
    with jax.enable_x64(True):
        given = tuple(a.astype(jnp.float64) for a in arguments(cell, normal))
        check_grads(jax.jit(cell), given, order=1, modes=["rev"], atol=1e-6, rtol=1e-6)


@every_cell
def test_computes_in_the_inputs_dtype(cell, normal):
    given = arguments(cell, normal)
    states = 1 + CELLS[cell][0]
    low = (*(a.astype(jnp.bfloat16) for a in given[:states]), *given[states:])
    for found, full in zip(jax.tree.leaves(cell(*low)), jax.tree.leaves(cell(*given)), strict=True):
        assert found.dtype == jnp.bfloat16 and full.dtype == jnp.float32
        np.testing.assert_allclose(found.astype(jnp.float32), full, atol=0.1)


def test_the_reset_gate_before_and_after_the_product_differ_only_there(normal):
    """With r = 1 and the update gate inverted, Bahdanau's unit equals PyTorch's."""
    x, hidden, W, U, b = normal(B, I), normal(B, D), normal(I, 3 * D), normal(D, 3 * D), normal(3 * D)
    W, U, b = W.at[:, :D].set(0), U.at[:, :D].set(0), b.at[:D].set(30.0)  # r = 1
    turned = jnp.repeat(jnp.array([1.0, -1.0, 1.0]), D)
    before = gru_reset_before_cell(x, hidden, W, U, b)
    np.testing.assert_allclose(before, gru_cell(x, hidden, W * turned, U * turned, b * turned, jnp.zeros(D)), atol=1e-5)


@every_cell
def test_a_wrong_shape_is_named(cell, normal, unchecked):
    given = list(arguments(cell, normal))
    kernel = 1 + CELLS[cell][0]
    given[kernel] = given[kernel][:-1]
    with pytest.raises(ValueError, match=r"input_kernel: axis I of \[I \d+\]: expected 5 as in x, got 4"):
        cell(*given)
    given = list(arguments(cell, normal))
    given[-1] = given[-1][:-1]
    with pytest.raises(ValueError, match=r"bias: axis \d+ of \[\d+\]: expected"):
        cell(*given)
    given = list(arguments(cell, normal))
    given[1] = given[1].astype(jnp.bfloat16)
    with pytest.raises(ValueError, match=r"hidden: expected x's dtype float32, got bfloat16"):
        cell(*given)
