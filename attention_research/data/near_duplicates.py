"""Finds nearly equal texts, so that a split can keep them together.

The similarity of two texts is that of their sets of word n-grams: |A and B| / |A or B| (Broder 1997, the resemblance of
documents), with words in lower case and without punctuation. A group contains all texts connected by links, so that two
texts of a group may be similar only to a third one.
"""

import collections
import itertools
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence

from attention_research.data.reviews import split_of

Link = tuple[int, int]


def words(text: str) -> tuple[str, ...]:
    """The words of a text in lower case, without punctuation.

    >>> words("It isn't: Dr. X")
    ('it', 'isn', 't', 'dr', 'x')
    """
    return tuple(re.findall(r"\w+", text.lower()))


def alike(texts: Sequence[str], length: int, share: float) -> Iterator[Link]:
    """The pairs of texts that share at least the fraction `share` of their `length`-grams of words."""
    grams = [_grams(words(text), length) for text in texts]
    holders: dict[tuple[str, ...], list[int]] = collections.defaultdict(list)
    for index, own in enumerate(grams):
        for gram in own:
            holders[gram].append(index)
    common = collections.Counter(pair for found in holders.values() for pair in itertools.combinations(found, 2))
    for (one, other), count in common.items():
        if count >= share * len(grams[one] | grams[other]):
            yield one, other


def _grams(of: tuple[str, ...], length: int) -> set[tuple[str, ...]]:
    return {of[start : start + length] for start in range(max(1, len(of) - length + 1))}


def equal(values: Iterable[Hashable]) -> Iterator[Link]:
    """Links between equal values."""
    first: dict[Hashable, int] = {}
    for index, value in enumerate(values):
        if first.setdefault(value, index) != index:
            yield first[value], index


def groups(size: int, links: Iterable[Link]) -> list[int]:
    """The smallest example number of each example's group, for `size` examples.

    >>> groups(5, [(3, 4), (1, 3)])
    [0, 1, 2, 1, 1]
    """
    above = list(range(size))

    def top(index: int) -> int:
        while above[index] != index:
            above[index] = index = above[above[index]]
        return index

    for one, other in links:
        low, high = sorted((top(one), top(other)))
        above[high] = low
    return [top(index) for index in range(size)]


def splits(texts: Sequence[str], links: Iterable[Link]) -> list[str]:
    """The split of each text: `reviews.split_of` of the alphabetically first text of its group."""
    group = groups(len(texts), links)
    first: dict[int, str] = {}
    for index, text in zip(group, texts, strict=True):
        first[index] = min(first.get(index, text), text)
    return [split_of(first[index]) for index in group]
