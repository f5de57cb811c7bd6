"""The formulas against PyTorch's norms in float64 and against the equation of Ba et al. written as loops."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.experiments.lectures.normalization.formulas import (
    SLIPS,
    batch_norm,
    formula,
    neighbours,
    plain_layer_norm,
)

B, D = 7, 13


@pytest.fixture(scope="module")
def x():
    return 2 + 3 * np.random.default_rng(0).standard_normal((B, D))


def by_loops(row, *, sums, roots, epsilon):
    mean = math.fsum(row) / (1 if sums else len(row))
    variance = math.fsum((value - mean) ** 2 for value in row) / len(row)
    return [(value - mean) / math.sqrt((math.sqrt(variance) if roots else variance) + epsilon) for value in row]


@pytest.mark.parametrize("name", SLIPS)
def test_wrong_formulas_equal_their_loops(name, x):
    sums, roots = SLIPS[name]
    want = [by_loops(row, sums=sums, roots=roots, epsilon=0.1) for row in x]
    np.testing.assert_allclose(formula(name, x, epsilon=0.1), want, rtol=1e-12)


def test_only_the_right_formula_equals_pytorch_and_the_package(x, torch):
    want = torch.nn.functional.layer_norm(torch.tensor(x), (D,), eps=0.1).numpy()
    np.testing.assert_allclose(formula("right", x, epsilon=0.1), want, rtol=1e-12)
    np.testing.assert_allclose(plain_layer_norm(jnp.asarray(x, jnp.float32), epsilon=0.1), want, atol=1e-5)
    assert all(np.abs(formula(slip, x, epsilon=0.1) - want).max() > 0.1 for slip in ("sum", "root", "both"))


def test_a_scale_goes_through_the_root_that_is_taken_twice(x):
    y = [formula("root", scale * x, epsilon=0.0).std(axis=-1) for scale in (1, 100)]
    np.testing.assert_allclose(y[1], 10 * y[0], rtol=1e-12)
    np.testing.assert_allclose(formula("right", 100 * x, epsilon=0.0).std(axis=-1), 1, rtol=1e-12)


def test_batch_norm_is_pytorchs(x, torch):
    want = torch.nn.functional.batch_norm(torch.tensor(x), None, None, training=True, eps=0.1).numpy()
    np.testing.assert_allclose(batch_norm(jnp.asarray(x, jnp.float32), epsilon=0.1), want, atol=1e-5)


def test_neighbours_move_a_sample_through_batch_norm_alone(x):
    here, others = jnp.asarray(x, jnp.float32), jnp.asarray(x[::-1] * 2, jnp.float32)
    assert float(neighbours(plain_layer_norm, here, others)) == 0
    mixed = np.concatenate([x[:1], 2 * x[::-1][1:]])
    normed = lambda x: (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-6)
    want = np.linalg.norm(normed(mixed)[0] - normed(x)[0]) / np.linalg.norm(normed(x)[0])
    np.testing.assert_allclose(neighbours(batch_norm, here, others), want, rtol=1e-4)
