"""Exact hard monotonic attention against the sum over all paths, in float64 NumPy."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import latent_monotonic

B, T, S = 2, 3, 5


def paths(scores, length):
    """The probability of the last position, summed over every sequence of positions that never goes back."""
    found = np.zeros(scores.shape[1])
    for path in itertools.product(range(length), repeat=len(scores)):
        p, before = 1.0, 0
        for row, place in zip(scores, path, strict=True):
            p *= np.exp(row[place]) / np.exp(row[before:length]).sum() if place >= before else 0.0
            before = place
        found[path[-1]] += p
    return found


@pytest.mark.parametrize("length", [5, 3])
def test_the_distribution_is_the_sum_over_paths(length):
    rng = np.random.default_rng(3)
    scores = 2.0 * rng.standard_normal((T, B, S))
    mask = jnp.broadcast_to(jnp.arange(S) < length, (B, S))
    found = jnp.zeros((B, S)).at[:, 0].set(1.0)
    for row in scores:
        found = latent_monotonic(jnp.asarray(row, jnp.float32), found, mask=mask)
    expected = np.stack([paths(scores[:, b], length) for b in range(B)])
    np.testing.assert_allclose(found, expected, atol=2e-6)
    np.testing.assert_allclose(np.sum(found, 1), 1.0, atol=1e-6)


def test_far_scores_stay_finite():
    """The last position is left alone although its score is far below the others."""
    scores = jnp.array([[300.0, 0.0, -300.0]])
    assert latent_monotonic(scores, jnp.array([[0.0, 0.0, 1.0]])).tolist() == [[0.0, 0.0, 1.0]]
    assert latent_monotonic(scores, jnp.array([[0.0, 1.0, 0.0]]))[0, 1] == 1.0
