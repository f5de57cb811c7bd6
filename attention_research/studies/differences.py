"""Tests that one row is better than another: one-sided, from a number a seed; and a bootstrap over test sentences.

Higher numbers are better here. Seeds in pairs: Student's paired t test. Else Welch's t test. Where no number varies
there is no distribution: p is 0 or 1 by the sign of the difference, 0.5 where there is none. A run that diverged has
-inf, below every number. Then no mean exists: with all of one side diverged and none of the other, p is the largest
chance of that if all runs diverge alike often, n^n m^m / (n + m)^(n + m); else it is that of the exact rank sum test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Float, Int

#: Of sacreBLEU's paired bootstrap.
RESAMPLES, SEED = 1000, 12345


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


def paired_bootstrap(
    hypotheses: Sequence[str],
    others: Sequence[str],
    references: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> float:
    """The two-sided p of the difference in corpus BLEU of two systems' outputs, by resampling the test sentences (Koehn
    2004); all three lists are of the same sentences, detokenised.

    Seeds say how far a row moves when it is trained again, this says how far BLEU moves with the choice of sentences.
    sacreBLEU's test (`sacrebleu.significance`), number for number, but of two systems with the same BLEU p is 1.

    Raises ValueError where they are not equally long, or empty.
    """
    if not len(hypotheses) == len(others) == len(references) > 0:
        lengths = f"{len(hypotheses)}, {len(others)} and {len(references)}"
        raise ValueError(f"hypotheses: expected as many as others and references, and at least one; got {lengths}")
    drawn = np.random.default_rng(seed).choice(len(references), size=(resamples, len(references)), replace=True)
    counted = [sentence_counts(texts, references) for texts in (hypotheses, others)]
    difference = abs(_bleu(counted[0].sum(0)) - _bleu(counted[1].sum(0)))
    if difference == 0:
        return 1.0
    found = np.array([abs(_bleu(counted[0][some].sum(0)) - _bleu(counted[1][some].sum(0))) for some in drawn])
    return (int(np.sum(found - found.mean() > difference)) + 1) / (resamples + 1)


def sentence_counts(hypotheses: Sequence[str], references: Sequence[str]) -> Int[np.ndarray, "n 10"]:
    """Of each sentence what corpus BLEU is made of: both lengths, matching n-grams and n-grams for n = 1 to 4."""
    import sacrebleu

    metric = sacrebleu.BLEU()
    scores = (metric.corpus_score([one], [[other]]) for one, other in zip(hypotheses, references, strict=True))
    return np.array([[score.sys_len, score.ref_len, *score.counts, *score.totals] for score in scores], np.int64)


def _bleu(counts: np.ndarray) -> float:
    from sacrebleu.metrics import BLEU

    correct, total = counts[2:6].tolist(), counts[6:].tolist()
    return BLEU.compute_bleu(correct, total, int(counts[0]), int(counts[1]), smooth_method="exp").score
