"""Layout of terms by distance for a block, and its transpose, the sum by distance, against NumPy's indexing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels.attention.distances import dense, gathered, skewed, spread, unskewed
from tests.tiers import fast_are

#: rows, k, keys: no distance clipped, all clipped, a band wider than the keys, one row.
SHAPES = [(5, 0, 29), (5, 1, 29), (11, 2, 47), (11, 7, 29), (11, 7, 23), (1, 3, 29), (7, 40, 13)]
#: Distance of the first key from the first row, so that the band lies before, across, within or after the keys.
FIRSTS = (-60, -30, -13, -5, -1, 0, 1, 4, 9, 33)


@pytest.mark.parametrize("rows, k, width", SHAPES)
def test_spreading_looks_distances_up_and_gathering_is_its_transpose(rows, k, width):
    random = np.random.default_rng(0)
    by_distance, onto, scores = (random.standard_normal(s) for s in ((rows, 2 * k + 1), (rows, width), (rows, width)))

    @jax.jit
    def both(first):
        x, y, z = (jnp.asarray(a, jnp.float32) for a in (by_distance, onto, scores))
        return spread(x, first, y), gathered(z, 2 * k + 1, first, z.sum(-1))

    for first in FIRSTS:
        index = np.clip(np.arange(width) + first - np.arange(rows)[:, None], -k, k) + k
        spread_out, sums = both(jnp.int32(first))
        np.testing.assert_allclose(spread_out, onto + np.take_along_axis(by_distance, index, 1), atol=1e-5)
        expected = np.zeros((rows, 2 * k + 1))
        np.add.at(expected, (np.arange(rows)[:, None], index), scores)
        np.testing.assert_allclose(sums, expected, atol=2e-5)


@pytest.mark.parametrize(
    "rows, width", fast_are(["5-11"], {"1-7": (1, 7), "7-1": (7, 1), "5-11": (5, 11), "11-5": (11, 5)}, several=True)
)
def test_skewing_is_a_bias_by_distance_and_unskewing_its_transpose(rows, width):
    random = np.random.default_rng(0)
    by_distance, scores = random.standard_normal((3, rows + width - 1)), random.standard_normal((rows, width))
    index = np.arange(width) - np.arange(rows)[:, None] + rows - 1
    np.testing.assert_allclose(dense(jnp.asarray(by_distance, jnp.float32), rows)[0], by_distance[:, index], rtol=1e-6)
    np.testing.assert_allclose(skewed(jnp.asarray(by_distance[0]), rows), by_distance[0, index], rtol=1e-6)
    expected = np.zeros(rows + width - 1)
    np.add.at(expected, index, scores)
    np.testing.assert_allclose(unskewed(jnp.asarray(scores, jnp.float32)), expected, atol=1e-5)


def test_without_queries_there_are_no_rows():
    assert skewed(jnp.zeros(4), 0).shape == (0, 5)
