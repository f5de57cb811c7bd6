"""BLEU-1 to BLEU-4 of captions, Papineni et al. 2002, as the COCO caption evaluation prints them (Chen et al. 2015,
arXiv 1504.00325, section 3.2).

    BLEU_N = b (prod_n p_n)^(1/N), n = 1..N        b = min(1, exp(1 - r / c))

p_n is the fraction of the n-grams of all hypotheses that occur in the references. An n-gram counts at most as often as
in the reference of the image that contains it most often. c is the number of words of all hypotheses, and r the sum of
the lengths of the closest references (the shorter of two equally close ones). There is no smoothing: without a match of
an order, BLEU is 0. The released code adds 1e-15 to matches and 1e-9 to n-grams and returns up to 2e-4 in this case.

sacreBLEU computes the same BLEU_4 with another tokenization: it keeps case and punctuation (tokenizer 13a). By default
it also smooths orders without a match, reports percent, and requires the same number of references for all hypotheses.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

ORDERS = 4
Words = Sequence[str]
References = Sequence[Sequence[Words]]


def ngrams(words: Words, n: int) -> Iterator[tuple[str, ...]]:
    """All n-grams of a text, in order.

    >>> list(ngrams("a cat sat".split(), 2))
    [('a', 'cat'), ('cat', 'sat')]
    """
    return (tuple(words[start : start + n]) for start in range(len(words) - n + 1))


def caption_bleu(hypotheses: Sequence[Words], references: References) -> tuple[float, ...]:
    """(BLEU_1, ..., BLEU_4), from 0 to 1. Each hypothesis has one or more references.

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
