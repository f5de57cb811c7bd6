"""Amplification against finite differences of the network in float64 NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from attention_research.analysis.amplification import amplification

L, D, B = 5, 11, 3
ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh, "sigmoid": scipy.special.expit,
               "swish": lambda x: x * scipy.special.expit(x)}  # fmt: skip


def layers(weights, x, activation, normalised):
    found = []
    for weight in weights:
        x = x @ weight
        if normalised:
            x = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-6)
        x = ACTIVATIONS[activation](x)
        found.append(x)
    return np.stack(found)


@pytest.mark.slow
@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_it_is_the_relative_change_for_a_small_one(activation, normalised):
    rng = np.random.default_rng(0)
    weights, change = rng.standard_normal((L, D, D)) * 1.5 * D**-0.5, rng.standard_normal((D, D))
    x, step = rng.standard_normal((B, D)), 1e-6
    start = layers(weights, x, activation, normalised)
    moved = weights.copy()
    moved[0] += step * change
    size = lambda y: np.linalg.norm(y, axis=(1, 2))
    relative = step * np.linalg.norm(change) / np.linalg.norm(weights[0])
    want = size(layers(moved, x, activation, normalised) - start) / size(start) / relative
    arrays = (jnp.asarray(array, jnp.float32) for array in (weights, change, x))
    found, ranges = amplification(*arrays, activation, normalised=normalised)
    np.testing.assert_allclose(found, want, rtol=1e-3)
    np.testing.assert_allclose(ranges, np.sqrt((start**2).mean(axis=(1, 2))), rtol=1e-4)
