"""BLEU-1 to BLEU-4 of captions, Papineni et al. 2002, as the COCO caption evaluation prints them (Chen et al. 2015,
arXiv 1504.00325, section 3.2).

    BLEU_N = b (prod_n p_n)^(1/N), n = 1..N        b = min(1, exp(1 - r / c))

p_n is the share of the n-grams of all hypotheses that are in the references, each counted at most as often as in the
one of its picture's references that has most of it. c is the number of words of all hypotheses, r the sum of the
closest references' lengths, of two equally close the shorter. Nothing is smoothed: without one match of an order BLEU
is 0, where the released code, which adds 1e-15 to matches and 1e-9 to n-grams, gives up to 2e-4.

sacreBLEU computes the same BLEU_4 on other words: it keeps case and punctuation (tokenizer 13a), and by default it
smooths orders without a match, counts in percent, and takes one number of references for all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

ORDERS = 4
Words = Sequence[str]
References = Sequence[Sequence[Words]]


def ngrams(words: Words, n: int) -> Iterator[tuple[str, ...]]:
    """Every n words that follow each other, in order.

    >>> list(ngrams("a cat sat".split(), 2))
    [('a', 'cat'), ('cat', 'sat')]
    """
    return (tuple(words[start : start + n]) for start in range(len(words) - n + 1))


def caption_bleu(hypotheses: Sequence[Words], references: References) -> tuple[float, ...]:
    """(BLEU_1, ..., BLEU_4), from 0 to 1; each hypothesis has one reference or several.

    >>> scores = caption_bleu(["a cat sat".split()], [["the cat sat down".split(), "a cat".split()]])
    >>> [round(score, 4) for score in scores]
    [1.0, 1.0, 0.0, 0.0]
    """
    matches, counts = [0] * ORDERS, [0] * ORDERS
    for words, given in zip(hypotheses, references, strict=True):
        for n in range(1, ORDERS + 1):
            most: Counter[tuple[str, ...]] = Counter()
            for reference in given:
                most |= Counter(ngrams(reference, n))
            ours = Counter(ngrams(words, n))
            matches[n - 1] += (ours & most).total()
            counts[n - 1] += ours.total()
    written = counts[0]
    wanted = sum(map(closest_length, hypotheses, references))
    brevity = min(1.0, math.exp(1.0 - wanted / written)) if written else 0.0
    precisions = [match / count if count else 0.0 for match, count in zip(matches, counts, strict=True)]
    return tuple(brevity * math.prod(precisions[:n]) ** (1.0 / n) for n in range(1, ORDERS + 1))


def closest_length(words: Words, references: Sequence[Words]) -> int:
    """The number of words of the reference that is closest in length."""
    return min((len(reference) for reference in references), key=lambda length: (abs(length - len(words)), length))
