"""ROUGE (Lin 2004) as T5 and the papers after it print it: the library `rouge-score`, without stemming.

ROUGE-1 and -2 compare words and pairs of words, ROUGE-L the longest common subsequence; each is the F-measure, averaged
over the texts. T5 prints the middle of 1,000 bootstrap samples of that mean instead, which is random in the second
decimal place. The library keeps the letters a-z and digits only, in lower case: it is of use for English alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SIGNATURE = "rouge-score|stemmer:no|F-measure|mean over texts"


def rouge(hypotheses: Sequence[str], references: Sequence[str], kind: str) -> float:
    """`kind` is "rouge1", "rouge2" or "rougeL"; in percent.

    >>> rouge(["the cat sat"], ["a cat sat down"], "rougeL")
    57.14285714285715
    """
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer([kind])
    pairs = zip(hypotheses, references, strict=True)
    found = [scorer.score(target=reference, prediction=hypothesis)[kind].fmeasure for hypothesis, reference in pairs]
    return 100.0 * float(np.mean(found)) if found else 0.0
