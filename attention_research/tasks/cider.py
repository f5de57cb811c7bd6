"""CIDEr and CIDEr-D, Vedantam, Zitnick & Parikh 2015 (arXiv 1411.5726), section 4: similarity to reference captions.

    g_n(c)_w = h_w(c) log(M / max(1, d_w))
    CIDEr_n(c, S) = (10 / m) sum_j g_n(c) . g_n(s_j) / (|g_n(c)| |g_n(s_j)|)
    CIDEr-D_n(c, S) = (10 / m) sum_j exp(-(l(c) - l(s_j))^2 / (2 sigma^2))
                      min(g_n(c), g_n(s_j)) . g_n(s_j) / (|g_n(c)| |g_n(s_j)|)

Each score is averaged over n = 1..4 and then over the images. h_w is the count of the n-gram w in a caption. d_w is the
number of images with w in a reference, and M the number of all images, here of the evaluated split. m is the number of
references of an image, l the number of words, and sigma is 6. CIDEr-D clips repeated n-grams and penalizes differences
in length, so that nonsense captions score low. The COCO caption evaluation prints CIDEr-D as "CIDEr".

As in the released code, both scores have the factor 10 (in the paper, only CIDEr-D has it), h is not divided by the
number of n-grams of the caption (which only changes the minimum in CIDEr-D), and words are not stemmed. With a single
image, all weights are 0.
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
    """10 times the mean of `likeness(g_n(c), g_n(s), l(c) - l(s))` over an image's references, n and the images."""
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
    """The vector g_n of a caption."""
    return {gram: times * math.log(count / max(1, pictures[gram])) for gram, times in Counter(ngrams(words, n)).items()}


def _cosine(first: Vector, second: Vector, product: float) -> float:
    """`product` divided by both norms, or 0 if a norm is 0."""
    norms = math.hypot(*first.values()) * math.hypot(*second.values())
    return product / norms if norms else 0.0
