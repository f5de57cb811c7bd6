"""Sparsemax and alpha-entmax against a float64 search for the threshold, and their limits.

By hand, also against the package entmax 1.3 in float64 (sparsemax, entmax15, entmax_bisect and its gradient for alpha):
largest difference 2e-15.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels.variants import (
    entmax,
    entmax15,
    entmax15_attention,
    entmax_attention,
    sparsemax,
    sparsemax_attention,
)
from tests.kernels.test_variants import MASK, SEEN, H, N, heads, softmax, weighed64

ALPHA = np.linspace(1.2, 2, N)


def entmax64(row, alpha):
    """[(alpha - 1) z - tau]_+^(1 / (alpha - 1)) with tau by bisection until the sum is 1."""
    z = (alpha - 1) * row
    weigh = lambda tau: np.maximum(z - tau, 0) ** (1 / (alpha - 1))
    low, high = z.max() - 1, z.max()
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if weigh(middle).sum() >= 1 else (low, middle)
    return weigh(low)


KERNELS = {
    "sparsemax": (sparsemax_attention, (), lambda row, n: entmax64(row, 2.0)),
    "entmax15": (entmax15_attention, (), lambda row, n: entmax64(row, 1.5)),
    "entmax": (entmax_attention, (ALPHA,), lambda row, n: entmax64(row, ALPHA[n])),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_weights_are_those_of_the_threshold(name, normal):
    kernel, parameters, weigh = KERNELS[name]
    inputs = [4 * x for x in heads(normal)]
    settings, block_size = SEEN["causal_window"]
    expected = weighed64(*inputs, weigh, H**-0.5, True, (3, 3))
    call = jax.jit(
        lambda *x: kernel(
            *x, *(jnp.float32(p) for p in parameters), mask=jnp.asarray(MASK), block_size=block_size, **settings
        )
    )
    np.testing.assert_allclose(call(*inputs), expected, atol=2e-5, rtol=1e-4)


def test_entmax_of_a_row_has_its_special_cases(normal):
    row = 2 * normal(5, 13)
    found = jax.jit(
        lambda row: [entmax(row, jnp.array([alpha])) for alpha in (2.0, 1.5, 1.01)] + [sparsemax(row), entmax15(row)]
    )(row)
    two, middle, one, sparse, exact = map(np.asarray, found)
    np.testing.assert_allclose(two, sparse, atol=2e-6)
    np.testing.assert_allclose(middle, exact, atol=2e-6)
    np.testing.assert_allclose(one, [softmax(np.float64(r)) for r in np.asarray(row)], atol=0.015)
    assert (sparse == 0).sum() > (exact == 0).sum() > 0
    np.testing.assert_allclose(found[-1].sum(-1), 1, atol=1e-6)


def test_ties_share_the_weight_and_one_key_takes_it_all():
    rows = jnp.array([[3.0, 3, 3, -9], [9.0, 0, 0, 0]])
    for got in jax.jit(lambda x: (sparsemax(x), entmax15(x), entmax(x, jnp.array([1.5]))))(rows):
        np.testing.assert_allclose(got, [[1 / 3, 1 / 3, 1 / 3, 0], [1, 0, 0, 0]], atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_alpha_near_1_is_almost_the_softmax(dtype, normal):
    row, alpha = jnp.asarray(4 * normal(3, 13), dtype), 1 + 2.0**-10
    weights, gradient = jax.jit(
        lambda row, alpha: (entmax(row, alpha), jax.grad(lambda *x: entmax(*x)[:, 0].sum(), (0, 1))(row, alpha))
    )(row, jnp.array([alpha], jnp.float32))
    assert weights.dtype == dtype
    expected = [entmax64(one, alpha) for one in np.asarray(row, np.float64)]
    np.testing.assert_allclose(np.float64(weights), expected, atol=1e-3 if dtype == "float32" else 4e-3)
    assert all(np.isfinite(np.float64(one)).all() for one in gradient)


@pytest.mark.slow
def test_the_derivative_by_alpha_is_that_of_the_search():
    row, step = np.random.default_rng(0).standard_normal(11), 1e-6
    with jax.enable_x64(True):
        for alpha in (1.1, 1.5, 1.9):
            found = jax.jacfwd(lambda a: entmax(jnp.asarray(row), a[None]))(jnp.asarray(alpha))
            difference = (entmax64(row, alpha + step) - entmax64(row, alpha - step)) / (2 * step)
            np.testing.assert_allclose(found, difference, atol=1e-7)


@pytest.mark.parametrize("weigh", [sparsemax, entmax15], ids=["sparsemax", "entmax15"])
def test_bfloat16_logits_are_weighed_in_float32(weigh, normal):
    logits = jnp.asarray(normal(2000) * 0.01, jnp.bfloat16)
    want = np.asarray(weigh(logits.astype(jnp.float32)))
    got = weigh(logits)
    assert got.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(got, np.float32), want, rtol=2**-8, atol=1e-6 * want.max())
