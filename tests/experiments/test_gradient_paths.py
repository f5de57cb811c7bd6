"""Gradients by distance: the exact linear case, a product of Jacobians in NumPy, finite differences for attention."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.experiments.lectures.gradients.paths import gradient_norms, summary, with_gain
from attention_research.layers.recurrent.scan import run
from attention_research.registry import lookup

B, T, I, D = 2, 11, 3, 5


def made(kind, gain):
    return with_gain(lookup("recurrent_cell", kind)(width=D, input_width=I, rngs=nnx.Rngs(0)), gain)


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(0)
    return rng.standard_normal((B, T, I)), rng.standard_normal((B, D))


@pytest.mark.parametrize("gain", [0.5, 2.0])
def test_without_input_a_vanilla_cells_gradient_is_a_power_of_its_gain(gain, inputs):
    """With h = 0 every Jacobian is the orthogonal matrix times the gain. The input kernel is the identity."""
    cell = with_gain(lookup("recurrent_cell", "vanilla")(width=D, input_width=D, rngs=nnx.Rngs(1)), gain)
    cell.input_kernel[...] = jnp.eye(D)
    norms = np.asarray(gradient_norms(cell, jnp.zeros((B, T, D)), jnp.asarray(inputs[1], jnp.float32)))
    np.testing.assert_allclose(norms, np.linalg.norm(inputs[1], axis=1)[:, None] * gain ** np.arange(T), rtol=1e-4)
    found = summary(norms)
    assert abs(found["slope"] - np.log10(gain)) < 1e-4 and found["fit"] > 0.9999
    assert abs(found["log_ratio"] - (T - 1) * np.log10(gain)) < 1e-3


def test_a_vanilla_cells_gradient_is_the_product_of_its_jacobians(inputs):
    cell, (x, direction) = made("vanilla", 1.3), inputs
    w, u = (np.asarray(a[...], np.float64) for a in (cell.input_kernel, cell.state_kernel))
    hidden, states = np.zeros((B, D)), []
    for t in range(T):
        hidden = np.tanh(x[:, t] @ w + hidden @ u)
        states.append(hidden)
    want, back = np.zeros((B, T)), direction
    for k in range(T):
        inner = back * (1 - states[T - 1 - k] ** 2)
        want[:, k] = np.linalg.norm(inner @ w.T, axis=1)
        back = inner @ u.T
    got = gradient_norms(cell, jnp.asarray(x, jnp.float32), jnp.asarray(direction, jnp.float32))
    np.testing.assert_allclose(got, want, rtol=1e-4)


@pytest.mark.parametrize("kind", [pytest.param("gru", marks=pytest.mark.slow), "lstm"])
def test_with_attention_gradients_equal_finite_differences(kind, inputs):
    """float64 differences of a NumPy readout over the states of the cell."""
    cell, (x, direction) = made(kind, 1.0), inputs

    @jax.jit
    def states_of(x):
        return run(cell, x, cell.initial(x.shape[0], x.dtype))[0]

    def value(x):
        states = np.asarray(states_of(jnp.asarray(x, jnp.float32)), np.float64)
        scores = np.einsum("bd,btd->bt", states[:, -1], states) / np.sqrt(D)
        weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        return np.sum((states[:, -1] + np.einsum("bt,btd->bd", weights, states)) * direction, axis=1)

    got = np.asarray(gradient_norms(cell, *(jnp.asarray(a, jnp.float32) for a in (x, direction)), attention=True))
    for k in (0, T - 1):
        slopes = []
        for i in range(I):
            step = np.zeros_like(x)
            step[:, T - 1 - k, i] = 1e-2
            slopes.append((value(x + step) - value(x - step)) / 2e-2)
        np.testing.assert_allclose(got[:, k], np.linalg.norm(slopes, axis=0), rtol=2e-2, atol=1e-4)


def test_attention_keeps_the_farthest_gradient(inputs):
    cell, (x, direction) = made("vanilla", 0.5), (jnp.asarray(a, jnp.float32) for a in inputs)
    far = [float(summary(gradient_norms(cell, x, direction, attention=a))["log_ratio"]) for a in (False, True)]
    assert far[0] < -2.5 and far[1] > -2


def test_norms_below_float32_are_left_out():
    norms = np.array([[1.0, 0.1, 0.01, 0.0], [10.0, 1.0, 0.1, 1e-40]])
    found = summary(norms)
    assert found["log_norms"][3] is None and abs(found["slope"] + 1) < 1e-9 and abs(found["log_ratio"] + 3) < 1e-9
    assert summary(np.zeros((1, 5)))["slope"] is None
