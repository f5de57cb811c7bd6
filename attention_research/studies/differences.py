"""One-sided tests that one row is better than another: over seeds, and by a bootstrap over test items.

Higher numbers are better here. Paired seeds are compared by Student's paired t test, others by Welch's t test. If no
number varies, p is 0 or 1 by the sign of the difference, and 0.5 for equal numbers.

A diverged run has the number -inf, for which no mean exists. If all runs of the second side diverged and none of the
first, p is the largest probability of this event if all runs diverge equally often: n^n m^m / (n + m)^(n + m).
Otherwise p is that of the exact rank sum test.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float, Int

#: The settings of sacreBLEU's paired bootstrap.
RESAMPLES, SEED = 1000, 12345
#: The least number of items for a bootstrap: its rate of false positives at level 5% is 7% with 30 items, and at most
#: 5% with 100.
LEAST = 100


def p_above(ours: Sequence[float], theirs: Sequence[float], *, in_pairs: bool, margin: float = 0.0) -> float | None:
    """The one-sided p-value for `ours` being above `theirs` less the margin.

    None if a side has fewer than two numbers, since one seed shows no spread. Raises ValueError if `in_pairs` and the
    lengths differ.

    >>> round(p_above([3.0, 3.2, 3.1], [1.0, 1.1, 1.3], in_pairs=False), 5), p_above([3.0], [1.0, 1.1], in_pairs=False)
    (7e-05, None)
    """
    if in_pairs and len(ours) != len(theirs):
        raise ValueError(f"ours: expected as many numbers as theirs, {len(theirs)}; got {len(ours)}")
    if min(len(ours), len(theirs)) < 2:
        return None
    if -math.inf in (*ours, *theirs):
        return _p_diverged(ours, theirs)
    first, second = np.asarray(ours, np.float64) + margin, np.asarray(theirs, np.float64)
    return float(student(first - second) if in_pairs else welch(first, second))


def student(differences: Float[np.ndarray, "*B n"]) -> Float[np.ndarray, "*B"]:
    """The p-value for a mean of paired differences above 0: Student's t with n - 1 degrees of freedom.

    >>> round(float(student(np.array([0.2, 0.4, 0.2]))), 4)
    0.0286
    """
    count = differences.shape[-1]
    mean, variance = _moments(differences)
    return _p(mean, variance / count, np.full_like(mean, count - 1))


def student_over_rows(values: Float[np.ndarray, "*B rows n"]) -> Float[np.ndarray, "*B rows-1"]:
    """The one-sided p-values for the differences of all rows from the first, each in the direction that was measured.

    The i-th numbers of all rows have the same seed. The variance of a number is that of the residuals of the two-way
    layout of rows and seeds without interaction, with (rows - 1)(n - 1) degrees of freedom. If the variance estimated
    from a row's own differences is larger, it is used instead, because rows differ in their spread.

    >>> student_over_rows(np.array([[3.0, 3.1], [2.0, 2.3], [3.1, 3.4], [2.6, 2.7]])).round(4).tolist()
    [0.0014, 0.0697, 0.0081]
    """
    rows, count = values.shape[-2:]
    differences = values[..., 1:, :] - values[..., :1, :]
    mean, own = _moments(differences)
    over_seeds, over_rows = values.mean(-1, keepdims=True), values.mean(-2, keepdims=True)
    left = values - over_seeds - over_rows + values.mean((-2, -1), keepdims=True)
    freedom = (rows - 1) * (count - 1)
    variance = np.maximum(own, 2 * np.square(left).sum((-2, -1))[..., None] / freedom)
    return _p(np.abs(mean), variance / count, np.full_like(mean, freedom))


def welch(ours: Float[np.ndarray, "*B n"], theirs: Float[np.ndarray, "*B m"]) -> Float[np.ndarray, "*B"]:
    """The p-value for a mean of ours above that of theirs: Welch 1947, with Satterthwaite's degrees of freedom.

    >>> round(float(welch(np.array([3.0, 3.2, 3.1]), np.array([1.0, 1.1, 1.3]))), 5)
    7e-05
    """
    (first, second), (a, b) = zip(_moments(ours), _moments(theirs), strict=True)
    a, b = a / ours.shape[-1], b / theirs.shape[-1]
    with np.errstate(invalid="ignore"):
        freedom = (a + b) ** 2 / (a**2 / (ours.shape[-1] - 1) + b**2 / (theirs.shape[-1] - 1))
    return _p(first - second, a + b, freedom)


def _moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sample variance along the last axis. For equal numbers they are exactly that number and 0."""
    same = x.max(-1) == x.min(-1)
    return np.where(same, x[..., 0], x.mean(-1)), np.where(same, 0.0, x.var(-1, ddof=1))


def _p(gain: np.ndarray, variance: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """The upper tail of Student's t at gain / sqrt(variance)."""
    from scipy.special import stdtr

    spread = variance > 0
    t = gain / np.sqrt(np.where(spread, variance, 1.0))
    return np.where(spread, stdtr(np.where(spread, freedom, 1.0), -t), 0.5 - 0.5 * np.sign(gain))


def _p_diverged(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The p-value if some numbers are -inf (diverged runs)."""
    from scipy.stats import rankdata

    n, m = len(ours), len(theirs)
    if all(map(math.isfinite, ours)) and not any(map(math.isfinite, theirs)):
        return float(n) ** n * float(m) ** m / float(n + m) ** (n + m)
    ranks = rankdata([*ours, *theirs])
    found = sum(ranks[:n])
    sums = [sum(some) for some in combinations(ranks, n)]
    return float(sum(one >= found for one in sums) / len(sums))


@dataclasses.dataclass(frozen=True)
class Resampled:
    """The score of several trials on one test set, and on every resample of its items."""

    scores: Float[np.ndarray, "trials"]
    resamples: Float[np.ndarray, "trials r"]
    items: int


def resampled(stored: Sequence[Mapping[str, Any] | None], name: str) -> Resampled | None:
    """The score `name` of several trials, from the `tasks.sentence_statistics` that their evaluations stored.

    None without trials, if a trial does not store this score, if the test sets differ, or if a test set has fewer than
    `LEAST` items.
    """
    from attention_research.tasks.sentence_statistics import SCORES  # imports sacreBLEU

    there = [one for one in stored if one is not None and name in SCORES.get(one.get("metric", ""), ())]
    if not there or len(there) < len(stored) or len({one.get("test_set") for one in there}) > 1:
        return None
    found = [one for stats in there if (one := _resampled(json.dumps(stats, sort_keys=True), name)) is not None]
    if len(found) < len(there):
        return None
    scores, resamples = (np.array([one[side] for one in found]) for side in (0, 1))
    return Resampled(scores, resamples, found[0][2])


@functools.lru_cache(maxsize=1024)
def _resampled(packed: str, name: str) -> tuple[float, tuple[float, ...], int] | None:
    from attention_research.tasks.sentence_statistics import SCORES, counts

    read = json.loads(packed)
    counted = counts(read, name)
    if counted is None or len(counted) < LEAST:
        return None
    score = SCORES[read["metric"]][name]
    items = len(counted)
    return score(counted.sum(0), items), tuple(score(sums, items) for sums in resampled_sums(counted)), items


def resampled_sums(
    counted: Int[np.ndarray, "n c"] | Float[np.ndarray, "n c"], *, resamples: int = RESAMPLES, seed: int = SEED
) -> Float[np.ndarray, "r c"]:
    """The sums of each resample of n items, drawn with replacement. The draws are those of sacreBLEU's bootstrap.

    >>> print(resampled_sums(np.array([[1, 2], [3, 4], [5, 6]]), resamples=2))
    [[11. 14.]
     [ 7. 10.]]
    """
    rng, items = np.random.default_rng(seed), len(counted)
    drawn = (np.bincount(rng.choice(items, size=items, replace=True), minlength=items) for _ in range(resamples))
    return np.array([times @ counted for times in drawn], np.float64)


def p_over_items(
    gain: Float[np.ndarray, "*B"], gains: Float[np.ndarray, "*B r"]
) -> tuple[Float[np.ndarray, "*B"], Float[np.ndarray, "*B"]]:
    """The one-sided p-values for a gain above 0 and below 0, from the gains on resamples of the test set.

    The paired bootstrap (Koehn 2004) as in sacreBLEU. The resampled gains less their mean are the distribution of the
    gain if the true gain is 0 (Riezler & Maxwell 2005). p is (1 + the number of them that are at least as large as the
    gain) / (1 + the number of resamples).
    """
    moved = gains - gains.mean(-1, keepdims=True)
    above, below = (np.sum(side * moved >= side * gain[..., None], -1) for side in (1.0, -1.0))
    return (1 + above) / (1 + gains.shape[-1]), (1 + below) / (1 + gains.shape[-1])
