"""Tests of differences and orders, against formulas written out and against what a level promises."""

import math

import numpy as np
import pytest

from attention_research.studies.significance import holm, paired, rank_correlation


def test_paired_is_students_t():
    a, b = [1.31, 2.05, 2.9, 4.4], [1.0, 2.1, 2.2, 3.3]
    d = np.subtract(a, b)
    t = d.mean() / (d.std(ddof=1) / math.sqrt(len(d)))
    # Student's density with 3 degrees of freedom, 2 / (pi sqrt 3) (1 + t^2 / 3)^-2, summed beyond |t|.
    x = np.linspace(abs(t), 4000, 8_000_001)
    density = 2 / (math.pi * math.sqrt(3)) / (1 + x**2 / 3) ** 2
    tail = float(np.sum((density[1:] + density[:-1]) / 2) * (x[1] - x[0]))
    found = paired(a, b)
    assert found.mean == pytest.approx(d.mean()) and found.p == pytest.approx(2 * tail, rel=1e-3)


def test_without_any_spread_a_difference_is_certain():
    assert paired([2.0, 3.0], [1.0, 2.0]).p == 0.0 and paired([2.0, 3.0], [2.0, 3.0]).p == 1.0


def test_holm_is_rs():
    """p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.005), "holm") of R."""
    found = holm(dict(zip("abcde", (0.01, 0.02, 0.03, 0.04, 0.005), strict=True)))
    assert list(found) == list("abcde")
    np.testing.assert_allclose(list(found.values()), [0.04, 0.06, 0.06, 0.06, 0.025])


def test_ranks_correlate_as_by_hand():
    """1 - 6 sum d^2 / (n (n^2 - 1)) for ranks without ties."""
    x, y = [3.0, 1.0, 4.0, 1.5, 9.0], [2.0, 7.0, 1.0, 8.0, 3.0]
    d = np.argsort(np.argsort(x)) - np.argsort(np.argsort(y))
    found = rank_correlation(x, y)
    assert found.rho == pytest.approx(1 - 6 * np.sum(d**2) / (5 * 24)) and found.pairs == 5
    assert found.low < found.rho < found.high
    assert rank_correlation([1, 2, 3, 4], [2, 4, 6, 9])[:3] == (1.0, 1.0, 1.0)


def test_the_interval_holds_the_true_correlation_as_often_as_it_says():
    """Of normal pairs whose Pearson correlation is r, Spearman's is (6 / pi) asin(r / 2)."""
    rng, r, n, draws = np.random.default_rng(0), 0.6, 40, 1500
    true = 6 / math.pi * math.asin(r / 2)
    x = rng.standard_normal((draws, n))
    y = r * x + math.sqrt(1 - r**2) * rng.standard_normal((draws, n))
    found = [rank_correlation(*pair) for pair in zip(x, y, strict=True)]
    assert 0.93 < np.mean([one.low < true < one.high for one in found]) < 0.975


@pytest.mark.parametrize("function", [paired, rank_correlation])
def test_too_few_pairs_are_refused(function):
    with pytest.raises(ValueError, match="at least"):
        function([1.0], [2.0])
