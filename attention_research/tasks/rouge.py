"""ROUGE (Lin 2004), computed by the library `rouge-score`, without stemming.

ROUGE-1 and ROUGE-2 compare words and pairs of words, and ROUGE-L the longest common subsequence. Each is the F-measure,
averaged over the texts. The library keeps only the letters a-z and digits, in lower case, so it is suitable only for
English.

T5 differs in two ways. It reports the median of 1,000 bootstrap samples of the mean, which is random in the second
decimal place. Its ROUGE-L is rougeLsum, which joins the longest common subsequences of the sentences of a text; ours,
rougeL, takes each text as one sentence. Both are equal for texts of one sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attention_research.tasks.caption_bleu import References, Words

SIGNATURE = "rouge-score|stemmer:no|F-measure|mean over texts"


def rouge(hypotheses: Sequence[str], references: Sequence[str], kind: str) -> float:
    """The ROUGE score in percent. `kind` is "rouge1", "rouge2" or "rougeL".

    >>> rouge(["the cat sat"], ["a cat sat down"], "rougeL")
    57.14285714285715
    """
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer([kind])
    pairs = zip(hypotheses, references, strict=True)
    found = [scorer.score(target=reference, prediction=hypothesis)[kind].fmeasure for hypothesis, reference in pairs]
    return 100.0 * float(np.mean(found)) if found else 0.0


#: The beta of ROUGE-L for captions.
BETA = 1.2


def caption_rouge(hypotheses: Sequence[Words], references: References) -> float:
    """ROUGE-L of captions, from 0 to 1, as the COCO caption evaluation prints it (Chen et al. 2015, arXiv 1504.00325).

        F = (1 + beta^2) P R / (R + beta^2 P)        P = max_j l_j / |c|        R = max_j l_j / |s_j|

    l_j is the length of the longest common subsequence of hypothesis c and reference s_j. beta is 1.2, which weights
    recall more than precision. The best precision and the best recall may come from different references. The score of
    a split is the mean over its images.

    >>> caption_rouge(["a cat sat".split()], [["the cat sat down".split(), "a cat".split()]])
    0.8299319727891156
    """
    found = [_f_measure(words, given) for words, given in zip(hypotheses, references, strict=True)]
    return sum(found) / len(found)


def _f_measure(words: Words, references: Sequence[Words]) -> float:
    lengths = [(common(words, reference), len(reference)) for reference in references]
    if not any(shared for shared, _ in lengths):
        return 0.0
    precision = max(shared for shared, _ in lengths) / len(words)
    recall = max(shared / length for shared, length in lengths if length)
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


def common(first: Words, second: Words) -> int:
    """The length of the longest common subsequence.

    >>> common("a cat sat".split(), "the cat sat down".split())
    2
    """
    row = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0
        for place, other in enumerate(second, start=1):
            longest = diagonal + 1 if word == other else max(row[place], row[place - 1])
            diagonal, row[place] = row[place], longest
    return row[-1]
