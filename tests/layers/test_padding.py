"""The step "padding" zeroes padding positions and changes nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.kernels.masks import padding_mask, segment_mask
from attention_research.layers.padding import Padding, real_tokens

B, T, D = 2, 5, 3
REAL = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
SEGMENTS = np.array([[1, 1, 2, 0, 0], [1, 2, 2, 3, 3]])


@pytest.mark.parametrize("mask", [padding_mask(jnp.asarray(REAL)), segment_mask(*2 * [jnp.asarray(SEGMENTS)])],
                         ids=["rows", "packed"])  # fmt: skip
def test_real_positions_are_read_from_a_mask(mask):
    np.testing.assert_array_equal(real_tokens(mask)["real"], REAL)


def test_padding_is_zero_with_zero_gradient():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(B, T, D)), jnp.float32)
    layer = Padding(rngs=nnx.Rngs(0))
    y, aux = layer(x, real=jnp.asarray(REAL))
    np.testing.assert_array_equal(y, np.where(REAL[..., None], x, 0))
    gradient = jax.grad(lambda x: jnp.sum(layer(x, real=jnp.asarray(REAL))[0]))(x)
    np.testing.assert_array_equal(gradient, np.broadcast_to(REAL[..., None], (B, T, D)))
    assert aux == {} and real_tokens(None) == {}
    np.testing.assert_array_equal(layer(x)[0], x)
