"""Head statistics, rollout and spectra against loops, SciPy and matrices with known results."""

import numpy as np
import pytest
import scipy.stats
from scipy.spatial.distance import jensenshannon

from attention_research.analysis.head_statistics import divergence, head_statistics
from attention_research.analysis.rollout import rollout
from attention_research.analysis.spectra import GRID, cumulative_spectrum, mean_spectrum, rank_for

L, N = 2, 3


def drawn(length, seed, *, is_causal=False):
    weights = np.random.default_rng(seed).dirichlet(np.ones(length), (L, N, length))
    weights = weights * np.tri(length) if is_causal else weights
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("is_causal", [True, False])
def test_statistics_are_means_over_rows(is_causal):
    maps = [drawn(5, 0, is_causal=is_causal), drawn(7, 1, is_causal=is_causal), drawn(1, 2)]
    got = head_statistics(maps, is_causal=is_causal)
    for l, n in np.ndindex(L, N):
        rows = []
        for weights in maps[:2]:
            for i, row in enumerate(weights[l, n]):
                seen = i + 1 if is_causal else len(row)
                if seen > 1:
                    entropy = scipy.stats.entropy(row[:seen]) / np.log(seen)
                    distance = sum(abs(i - j) * p for j, p in enumerate(row))
                    rows.append((entropy, distance, row[i], row[i - 1] if i else 0.0, row[0]))
        want = dict(zip(("entropy", "distance", "diagonal", "previous", "first"), np.mean(rows, axis=0), strict=True))
        for name, value in want.items():
            np.testing.assert_allclose(got[name][l, n], value, rtol=1e-9)


@pytest.mark.parametrize("least", [-1.0, 0.0], ids=["negative", "not normalised"])
def test_weights_that_are_no_probabilities_count_by_their_absolute_shares(least):
    """Differential attention and talking heads have negative weights; those of sigmoid attention do not sum to 1."""
    weights = np.random.default_rng(3).uniform(least, 1.0, (L, N, 5, 7))
    weights[0, 0, 0] = 0.0  # a query without visible keys
    assert (weights.min() < 0) == (least < 0) and np.abs(weights.sum(-1) - 1).max() > 0.5
    share = np.abs(weights) / np.maximum(np.abs(weights).sum(-1, keepdims=True), 1e-300)
    got = head_statistics([weights])
    for l, n in np.ndindex(L, N):
        entropies = [scipy.stats.entropy(row) if row.any() else 0.0 for row in share[l, n]]
        np.testing.assert_allclose(got["entropy"][l, n], np.mean(entropies) / np.log(7))
        apart = [[abs(i - j) for j in range(7)] for i in range(5)]
        np.testing.assert_allclose(got["distance"][l, n], (share[l, n] * apart).sum(-1).mean())
        np.testing.assert_allclose(got["first"][l, n], weights[l, n, :, 0].mean())
    both = [jensenshannon(share[1, 0, i], share[1, 1, i], base=2) ** 2 for i in range(5)]
    np.testing.assert_allclose(divergence([weights[1:, :2]])[0], np.mean(both))


def test_a_rollout_of_negative_weights_is_refused():
    with pytest.raises(ValueError, match="some weights are negative"):
        rollout(np.array([[[[1.5, -0.5], [0.0, 1.0]]]]))


def test_rows_with_one_visible_position_are_refused():
    with pytest.raises(ValueError, match="no row sees two positions"):
        head_statistics([drawn(1, 0)])


def test_divergence_equals_scipys_and_is_zero_between_copies():
    maps = [drawn(5, 0), drawn(6, 1)]
    pairs = [
        jensenshannon(w[1, a, i], w[1, b, i], base=2) ** 2
        for w in maps for a in range(N) for b in range(a) for i in range(w.shape[2])
    ]  # fmt: skip
    np.testing.assert_allclose(divergence(maps)[1], np.mean(pairs))
    copies = np.repeat(drawn(5, 0)[:, :1], N, axis=1)
    np.testing.assert_allclose(divergence([copies]), 0, atol=1e-12)
    apart = np.stack([np.eye(4), np.roll(np.eye(4), 1, axis=1)])[None]
    np.testing.assert_allclose(divergence([apart]), 1)


def test_rollout_sums_over_all_paths_through_the_layers():
    weights = drawn(4, 3)
    got = rollout(weights)
    mean = weights.mean(axis=1)
    for start, end in np.ndindex(4, 4):
        through = sum(
            (mean[1][end, middle] + (end == middle)) / 2 * (mean[0][middle, start] + (middle == start)) / 2
            for middle in range(4)
        )
        np.testing.assert_allclose(got[1][end, start], through)
    np.testing.assert_allclose(got.sum(axis=2), 1)
    with pytest.raises(ValueError, match="square, got 4 x 5"):
        rollout(np.ones((1, 1, 4, 5)))


def test_spectra_of_known_matrices():
    low, full = np.ones((1, 1, 8, 8)) / 8, np.eye(8)[None, None]
    np.testing.assert_allclose(cumulative_spectrum(low)[0, 0], 1, atol=1e-9)
    np.testing.assert_allclose(cumulative_spectrum(full)[0, 0], np.arange(1, 9) / 8)
    np.testing.assert_allclose(mean_spectrum([full, np.eye(4)[None, None]])[0, 0], GRID, atol=1e-9)
    assert rank_for(mean_spectrum([low])[0, 0]) < 0.13 and abs(rank_for(GRID, 0.5) - 0.5) < 1e-9
    values = scipy.linalg.svdvals(drawn(6, 4)[1, 2])
    np.testing.assert_allclose(cumulative_spectrum(drawn(6, 4))[1, 2], np.cumsum(values) / values.sum())
