"""Hyena against float64 NumPy: short convolutions, implicit kernels, gates, packed rows, prompts and steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.errors import ConfigError
from attention_research.layers.attention.hyena import Hyena
from attention_research.layers.structure import abstract
from tests.layers.packed_and_stepped import PROMPT, outputs

B, T, D, LONGEST = 2, 11, 6, 13
SETTINGS = {"width": D, "max_length": LONGEST, "order": 3, "place_width": 5, "filter_width": 7, "frequency": 2.0}
#: Packed examples; 0 is padding.
SEGMENTS = np.array([[1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2], [1, 1, 0, 2, 2, 3, 3, 3, 3, 0, 0]])


def kernels(w):
    """[P T D]: for each distance, the network of its features, times the window."""
    found = np.zeros((2, T, D))
    for t in range(T):
        bands = np.array([1e-4, 1.0]) * 2 * np.pi * t / LONGEST
        x = np.array([t / (LONGEST - 1), *np.cos(bands), *np.sin(bands)])
        for name in ("first", "second", "third"):
            x = np.sin(w["filter.frequency"] * (x @ w[f"filter.{name}.kernel"] + w[f"filter.{name}.bias"]))
        slow, fast = np.log(0.01) / 1.5, np.log(0.01) / 0.3
        window = np.exp(-np.abs(np.linspace(slow, fast, 2 * D)) * t / (LONGEST - 1))
        found[:, t] = (x @ w["filter.last.kernel"] * window).reshape(2, D)
    return found


def oracle(w, x, segments):
    """The operator of order 3 on one row: sums over the positions of the same example."""
    together = lambda t, s: 0 <= s <= t and segments[s] == segments[t] != 0
    u = x @ w["projection.kernel"] + w["projection.bias"]
    short = np.zeros_like(u)
    for t in range(T):
        taps = [w["convolution.filter_kernel"][:, 2 - j] * u[t - j] for j in range(3) if together(t, t - j)]
        short[t] = w["convolution.bias"] + sum(taps)
    z, *gates = np.split(short, 4, -1)
    for gate, kernel, skip in zip(gates[:2], kernels(w), w["skip"], strict=True):
        z = gate * z
        z = np.array([skip * z[t] + sum(kernel[t - s] * z[s] for s in range(T) if together(t, s)) for t in range(T)])
    return gates[2] * z @ w["output.kernel"] + w["output.bias"]


def layer():
    structure, shapes, _ = abstract(lambda rngs: Hyena(**SETTINGS, rngs=rngs))
    random = np.random.default_rng(1)
    return structure, {name: random.standard_normal(x.shape) * x.shape[0] ** -0.5 for name, x in sorted(shapes.items())}


@pytest.fixture(scope="module")
def found():
    """The quantities that the tests check, by one program."""
    structure, w = layer()
    x = np.random.default_rng(2).standard_normal((B, T, D))
    return w, x, outputs(structure, w, x, SEGMENTS, LONGEST)


@pytest.mark.slow
def test_packed_rows_are_the_equation(found):
    w, x, got = found
    for row in range(B):
        real = SEGMENTS[row] != 0
        np.testing.assert_allclose(got["packed"][row][real], oracle(w, x[row], SEGMENTS[row])[real], atol=2e-5)
        np.testing.assert_allclose(got["wide"][row], oracle(w, x[row], np.ones(T)), atol=2e-5)


@pytest.mark.slow
def test_a_prompt_with_padding_and_steps_are_the_whole(found):
    got = found[2]
    np.testing.assert_allclose(got["prompt"][PROMPT], got["whole"][:, :5][PROMPT], atol=1e-5)
    np.testing.assert_allclose(got["rest"], got["whole"][:, 5:], atol=1e-5)


@pytest.mark.slow
def test_bfloat16_keeps_the_dtype(found):
    got = found[2]
    assert got["narrow"].dtype == jnp.bfloat16
    np.testing.assert_allclose(np.float32(got["narrow"]), got["wide"], atol=0.1 * np.abs(got["wide"]).max())


def test_longer_rows_and_calls_without_causality_are_refused():
    structure, w = layer()
    call = lambda *shape, **given: jax.eval_shape(lambda p: structure.merge(p)(jnp.zeros(shape), **given), w)
    with pytest.raises(ValueError, match="14 positions are more than its max_length 13"):
        call(B, LONGEST + 1, D, is_causal=True)
    with pytest.raises(ValueError, match="14 positions are more than its max_length 13"):
        jax.eval_shape(lambda p: structure.merge(p).start(B, LONGEST + 1, jnp.float32), w)
    with pytest.raises(ValueError, match="Hyena is causal"):
        call(B, T, D)


@pytest.mark.parametrize(
    ("settings", "message"), [({"order": 1}, "order: .* 2"), ({"place_width": 4}, "place_width: .* odd")]
)
def test_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        abstract(lambda rngs: Hyena(**{**SETTINGS, **settings}, rngs=rngs))
