"""Paired bootstrap over test sentences (Koehn 2004): how sure is a difference in BLEU of two systems' outputs?

Seeds say how far a row moves when it is trained again; this says how far BLEU moves with the choice of test sentences.
A claim about a corpus metric wants both. The test is sacreBLEU's (`sacrebleu.significance`), number for number, but for
two systems with the same BLEU: here p is 1, there the smallest that it can be.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

#: sacreBLEU's own.
RESAMPLES, SEED = 1000, 12345


def paired_bootstrap(
    hypotheses: Sequence[str],
    others: Sequence[str],
    references: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> float:
    """The two-sided p of the difference in corpus BLEU; all three lists are of the same sentences, detokenised.

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
