"""Positions in two halves against the formula, in float64."""

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.layers.positions.sinusoidal_halves import SinusoidalHalves


@pytest.mark.parametrize("width", [6, 7])
def test_all_sines_stand_before_all_cosines(width):
    layer = SinusoidalHalves(width=width, max_length=23, rngs=nnx.Rngs(0))
    x = np.random.default_rng(0).standard_normal((2, 5, width)).astype(np.float32)
    positions = np.array([[0, 1, 2, 3, 4], [22, 7, 7, 0, 13]], np.int32)
    got = np.asarray(layer(jnp.asarray(x), jnp.asarray(positions))) - x
    sines = -(-width // 2)
    for row, t, column in np.ndindex(got.shape):
        pair, function = (column, np.sin) if column < sines else (column - sines, np.cos)
        want = function(positions[row, t] / 10000 ** (2 * pair / width))
        np.testing.assert_allclose(got[row, t, column], want, atol=1e-6)
