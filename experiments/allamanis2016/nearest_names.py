"""Names of the nearest bodies by TF-IDF: the baseline of Allamanis, Peng & Sutton 2016, section 4.

A body is the vector of (1 + log count) log(N / functions with the sub-token); near is a high cosine (Salton & Buckley
1988's weights). The paper says no more than "tf-idf".
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np


def nearest_names(bodies: Sequence[str], names: Sequence[str], asked: Sequence[str], count: int = 5) -> list[list[str]]:
    """For each body that is asked for, up to `count` different names of the nearest bodies, the nearest first.

    Of equally near ones the earlier; a body that shares no sub-token with any has the names of the first ones.
    """
    postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for number, body in enumerate(bodies):
        for word, times in Counter(body.split()).items():
            postings[word].append((number, 1.0 + math.log(times)))
    rarity = {word: math.log(len(bodies) / len(places)) for word, places in postings.items()}
    arrays = {
        word: (np.array([n for n, _ in places]), np.array([weight for _, weight in places]) * rarity[word])
        for word, places in postings.items()
    }
    squares = np.zeros(len(bodies))
    for places, weights in arrays.values():
        squares[places] += weights**2
    lengths = np.sqrt(np.where(squares > 0, squares, 1.0))
    return [_names(body, arrays, rarity, lengths, names, count) for body in asked]


def _names(body: str, arrays: dict, rarity: dict, lengths: np.ndarray, names: Sequence[str], count: int) -> list[str]:
    similarity = np.zeros(len(lengths))
    for word, times in Counter(body.split()).items():
        if word in arrays:
            places, weights = arrays[word]
            similarity[places] += weights * (1.0 + math.log(times)) * rarity[word]
    found: dict[str, None] = {}
    for number in np.argsort(-similarity / lengths, kind="stable"):
        found.setdefault(names[number])
        if len(found) == count:
            break
    return list(found)
