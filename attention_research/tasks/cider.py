"""CIDEr and CIDEr-D, Vedantam, Zitnick & Parikh 2015 (arXiv 1411.5726), section 4: likeness to what most people wrote.

    g_n(c)_w = h_w(c) log(M / max(1, d_w))
    CIDEr_n(c, S) = (10 / m) sum_j g_n(c) . g_n(s_j) / (|g_n(c)| |g_n(s_j)|)
    CIDEr-D_n(c, S) = (10 / m) sum_j exp(-(l(c) - l(s_j))^2 / (2 sigma^2))
                      min(g_n(c), g_n(s_j)) . g_n(s_j) / (|g_n(c)| |g_n(s_j)|)

each averaged over n = 1..4, then over the pictures. h_w counts the n-gram w in a caption; d_w is the number of
pictures that have w in a reference, M that of all pictures, here those of the split that is evaluated; m is the number
of a picture's references, l the number of words, sigma 6. CIDEr-D cuts off what a hypothesis repeats and pays for
another length, so that nonsense scores low; it is what the COCO caption evaluation prints as "CIDEr".

As in the released code both carry the factor 10 (the text gives it to CIDEr-D alone), h counts without dividing by the
caption's n-grams, which changes the minimum of CIDEr-D only, and no word is stemmed. With one picture every weight is
0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from attention_research.tasks.caption_bleu import ORDERS, References, Words, ngrams

SIGMA = 6.0
#: n-gram -> its weight.
Vector = dict[tuple[str, ...], float]


def cider(hypotheses: Sequence[Words], references: References) -> float:
    """CIDEr, from 0 to 10."""

    def likeness(ours: Vector, theirs: Vector, difference: int) -> float:
        return _cosine(ours, theirs, sum(weight * theirs.get(gram, 0.0) for gram, weight in ours.items()))

    return _mean(hypotheses, references, likeness)


def cider_d(hypotheses: Sequence[Words], references: References) -> float:
    """CIDEr-D, from 0 to 10.

    >>> references = [["a cat sat".split()], ["a dog ran home".split()]]
    >>> cider_d(["a cat cat sat".split(), "a dog ran".split()], references) < cider(
    ...     ["a cat cat sat".split(), "a dog ran".split()], references)
    True
    """

    def likeness(ours: Vector, theirs: Vector, difference: int) -> float:
        shared = ((min(weight, theirs[gram]), theirs[gram]) for gram, weight in ours.items() if gram in theirs)
        return _cosine(ours, theirs, math.exp(-(difference**2) / (2 * SIGMA**2)) * sum(a * b for a, b in shared))

    return _mean(hypotheses, references, likeness)


def _mean(
    hypotheses: Sequence[Words], references: References, likeness: Callable[[Vector, Vector, int], float]
) -> float:
    """10 x the mean of `likeness(g_n(c), g_n(s), l(c) - l(s))` over a picture's references, over n and the pictures."""
    total = 0.0
    for n in range(1, ORDERS + 1):
        pictures = Counter(gram for given in references for gram in {g for words in given for g in ngrams(words, n)})
        for words, given in zip(hypotheses, references, strict=True):
            ours = _weighted(words, n, pictures, len(references))
            found = (
                likeness(ours, _weighted(one, n, pictures, len(references)), len(words) - len(one)) for one in given
            )
            total += sum(found) / len(given)
    return 10.0 * total / (ORDERS * len(hypotheses))


def _weighted(words: Words, n: int, pictures: Counter[tuple[str, ...]], count: int) -> Vector:
    """g_n of a caption."""
    return {gram: times * math.log(count / max(1, pictures[gram])) for gram, times in Counter(ngrams(words, n)).items()}


def _cosine(first: Vector, second: Vector, product: float) -> float:
    """`product` by both norms; 0 where one is."""
    norms = math.hypot(*first.values()) * math.hypot(*second.values())
    return product / norms if norms else 0.0
