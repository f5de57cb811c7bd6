"""Tests that one row is better than another, one-sided: from a number a seed, and by a bootstrap over test items.

Higher numbers are better here. Seeds in pairs: Student's paired t test. Else Welch's t test. Where no number varies
there is no distribution: p is 0 or 1 by the sign of the difference, 0.5 where there is none. A run that diverged has
-inf, below every number. Then no mean exists: with all of one side diverged and none of the other, p is the largest
chance of that if all runs diverge alike often, n^n m^m / (n + m)^(n + m); else it is that of the exact rank sum test.
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

#: Of sacreBLEU's paired bootstrap.
RESAMPLES, SEED = 1000, 12345
#: The fewest items that a bootstrap is made of: of 30 it finds 7% of differences that are none (of 100 at most 5%).
LEAST = 100


def p_above(ours: Sequence[float], theirs: Sequence[float], *, in_pairs: bool, margin: float = 0.0) -> float | None:
    """The chance of a difference at least as large if `ours` were not above `theirs` less the margin.

    None with fewer than two numbers a side: one seed shows no spread. Raises ValueError for pairs that are none.

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
    """p that the mean of paired differences is above 0: Student's t with n - 1 degrees of freedom."""
    count = differences.shape[-1]
    mean, variance = _moments(differences)
    return _p(mean, variance / count, np.full_like(mean, count - 1))


def welch(ours: Float[np.ndarray, "*B n"], theirs: Float[np.ndarray, "*B m"]) -> Float[np.ndarray, "*B"]:
    """p that the mean of ours is above that of theirs: Welch 1947, with Satterthwaite's degrees of freedom."""
    (first, second), (a, b) = zip(_moments(ours), _moments(theirs), strict=True)
    a, b = a / ours.shape[-1], b / theirs.shape[-1]
    with np.errstate(invalid="ignore"):
        freedom = (a + b) ** 2 / (a**2 / (ours.shape[-1] - 1) + b**2 / (theirs.shape[-1] - 1))
    return _p(first - second, a + b, freedom)


def _moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sample variance along the last axis; of equal numbers exactly that number and 0."""
    same = x.max(-1) == x.min(-1)
    return np.where(same, x[..., 0], x.mean(-1)), np.where(same, 0.0, x.var(-1, ddof=1))


def _p(gain: np.ndarray, variance: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """The upper tail of Student's t at gain / sqrt(variance)."""
    from scipy.special import stdtr

    spread = variance > 0
    t = gain / np.sqrt(np.where(spread, variance, 1.0))
    return np.where(spread, stdtr(np.where(spread, freedom, 1.0), -t), 0.5 - 0.5 * np.sign(gain))


def _p_diverged(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The p of numbers of which some are -inf."""
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
    """A score of some trials on one test set: of each, on the test set itself and on every resample of its items."""

    scores: Float[np.ndarray, "trials"]
    resamples: Float[np.ndarray, "trials r"]
    items: int


def resampled(stored: Sequence[Mapping[str, Any] | None], name: str) -> Resampled | None:
    """The score of that name of trials whose evaluations packed these `tasks.sentence_statistics`.

    None without any trial, where one has none of that score, or where they are not of one test set of `LEAST` items.
    """
    from attention_research.tasks.sentence_statistics import SCORES  # and sacreBLEU

    there = [one for one in stored if one is not None and name in SCORES.get(one.get("metric", ""), ())]
    if not there or len(there) < len(stored) or len({one.get("test_set") for one in there}) > 1:
        return None
    found = [_resampled(json.dumps(one, sort_keys=True), name) for one in there]
    if None in found:
        return None
    scores, resamples = (np.array([one[side] for one in found if one]) for side in (0, 1))
    return Resampled(scores, resamples, there[0]["items"])


@functools.lru_cache(maxsize=1024)
def _resampled(packed: str, name: str) -> tuple[float, tuple[float, ...]] | None:
    from attention_research.tasks.sentence_statistics import SCORES, counts

    read = json.loads(packed)
    counted = counts(read)
    if counted is None or len(counted) < LEAST:
        return None
    score = SCORES[read["metric"]][name]
    items = len(counted)
    return score(counted.sum(0), items), tuple(score(sums, items) for sums in resampled_sums(counted))


def resampled_sums(
    counted: Int[np.ndarray, "n c"] | Float[np.ndarray, "n c"], *, resamples: int = RESAMPLES, seed: int = SEED
) -> Float[np.ndarray, "r c"]:
    """The sums over as many items, drawn with replacement, of each resample: the draws of sacreBLEU's bootstrap."""
    rng, items = np.random.default_rng(seed), len(counted)
    drawn = (np.bincount(rng.choice(items, size=items, replace=True), minlength=items) for _ in range(resamples))
    return np.array([times @ counted for times in drawn], np.float64)


def p_over_items(
    gain: Float[np.ndarray, "*B"], gains: Float[np.ndarray, "*B r"]
) -> tuple[Float[np.ndarray, "*B"], Float[np.ndarray, "*B"]]:
    """The one-sided p that a gain on the test set is above 0, and that it is below, from the gains on its resamples.

    The paired bootstrap (Koehn 2004) as sacreBLEU has it: the resampled gains less their mean are what the choice of
    items does to a gain of 0 (Riezler & Maxwell 2005), and p is (1 + how many are as large as the gain) / (1 + all).
    """
    moved = gains - gains.mean(-1, keepdims=True)
    above, below = (np.sum(side * moved >= side * gain[..., None], -1) for side in (1.0, -1.0))
    return (1 + above) / (1 + gains.shape[-1]), (1 + below) / (1 + gains.shape[-1])
