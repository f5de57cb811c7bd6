"""Dropout's random draws: the rate, the expectation, and the independence of the two values from one random word."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from scipy import stats

from attention_research.layers.block import Block
from attention_research.layers.dropout import dropout
from attention_research.parallel.replica_settings import Varied, scope


def kept(rate: float, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.asarray(dropout(jnp.ones(shape), rate, jax.random.key(seed)))


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5, 0.9])
def test_as_many_values_are_dropped_as_the_rate_says(rate):
    x = kept(rate, (400, 501))
    n = x.size
    assert stats.binomtest(int((x == 0).sum()), n, rate).pvalue > 1e-3
    np.testing.assert_allclose(x[x != 0], 1 / (1 - rate), rtol=1e-4)


@pytest.mark.parametrize("rate", [0.99999, 0.999999])
def test_the_largest_rate_is_one_step_below_1(rate):
    x = kept(rate, (1000, 2000))
    assert 0 < (x != 0).sum() < 100  # 31 on average
    np.testing.assert_array_equal(x[x != 0], 65536)

    def varied(rate):
        with scope({"rate": rate}):
            return dropout(jnp.ones(x.shape), Varied(0.5, "rate"), jax.random.key(0))

    np.testing.assert_array_equal(jax.jit(varied)(rate), x)


def test_every_column_is_dropped_at_the_same_rate():
    columns = (kept(0.3, (20_000, 7)) == 0).sum(0)
    assert stats.chisquare(columns).pvalue > 1e-3


def test_neighbours_are_independent():
    dropped = kept(0.3, (50_000, 4), seed=1) == 0
    for i in range(4):
        for j in range(i):
            table = np.histogram2d(dropped[:, i], dropped[:, j], bins=2)[0]
            assert stats.chi2_contingency(table).pvalue > 1e-3, (i, j)


def test_the_expectation_is_the_input():
    x = jax.random.normal(jax.random.key(3), (5,))
    drawn = jax.vmap(lambda key: dropout(x, 0.4, key))(jax.random.split(jax.random.key(4), 40_000))
    np.testing.assert_allclose(drawn.mean(0), x, atol=5 * float(jnp.abs(x).max()) * (0.4 / 0.6 / 40_000) ** 0.5)


def test_a_key_gives_the_same_mask_and_its_gradient():
    x = jnp.arange(1.0, 10.0)
    key = jax.random.key(5)
    gradient = jax.grad(lambda x: dropout(x, 0.5, key).sum())(x)
    np.testing.assert_array_equal(gradient * x, dropout(x, 0.5, key))


def test_the_dropouts_of_a_block_are_independent():
    x = jnp.ones((4, 50, 100))
    y, _ = Block(steps=(("dropout",), ("dropout",)), children={}, dropout_rate=0.5, rngs=nnx.Rngs(0))(
        x, {}, key=jax.random.key(6)
    )
    assert stats.binomtest(int((y != 0).sum()), x.size, 0.25).pvalue > 1e-3  # the same mask twice would keep half


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 0)])
def test_dropout_works_for_any_shape(shape):
    assert dropout(jnp.ones(shape), 0.5, jax.random.key(0)).shape == shape


def test_without_a_key_or_a_rate_the_input_is_unchanged():
    x = jnp.ones(3)
    assert dropout(x, 0.5, None) is x
    assert dropout(x, 0.0, jax.random.key(0)) is x
    assert dropout(x.astype(jnp.bfloat16), 0.5, jax.random.key(0)).dtype == jnp.bfloat16
