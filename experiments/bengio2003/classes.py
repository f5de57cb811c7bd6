"""Class-based n-grams (Brown et al. 1992) over word classes found by exchange (Kneser & Ney 1993).

    p(w_t | w_<t) = p(w_t | g(w_t)) p(g(w_t) | g(w_{t-n+1}), ..., g(w_{t-1}))

g maps a word to its class. The n-gram model of classes is interpolated modified Kneser-Ney. p(w | g) is the relative
frequency of w among the words of its class; a word that the training text lacks has the count 1.

The exchange algorithm maximizes the likelihood of the training text under the class bigram model,

    F = sum_ab N(a, b) log N(a, b) - sum_a N(a, .) log N(a, .) - sum_b N(., b) log N(., b) + a constant

It begins with the c - 1 most frequent words as classes of their own and all other words in one class. Then it goes
through the words, the most frequent first, and moves each word into the class with the largest F, until no word moves
or for a number of rounds. Words that the training text lacks stay in the class of all other words.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Integer

from attention_research.data.tokens import TokenArray
from attention_research.tasks.floors.kneser_ney import KneserNey


class ClassModel:
    """The n-gram model of a text for given classes [V] of its words."""

    def __init__(self, text: Integer[np.ndarray, "n"], classes: Integer[np.ndarray, "V"], order: int):
        self.classes = classes
        counts = np.maximum(np.bincount(text, minlength=len(classes)), 1)
        self.emission = counts / np.bincount(classes, counts)[classes]
        self.model = KneserNey(TokenArray.join([classes[text]]), int(classes.max()) + 1, order)

    def probabilities(self, text: Integer[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """p of each token of a text, given the tokens before it."""
        of_class = TokenArray.join([self.classes[text]])
        p = self.model.probabilities(self.model.history(of_class), np.asarray(of_class.flat, np.int64))
        return p * self.emission[text]


def exchanged(
    text: Integer[np.ndarray, "n"], vocabulary: int, number: int, rounds: int = 20
) -> Integer[np.ndarray, "V"]:
    """The class of each word of the vocabulary, from 0 to `number` - 1."""
    search = Exchange(text, vocabulary, number)
    for _ in range(rounds):
        if not search.round():
            break
    return search.classes


class Exchange:
    """The state of the algorithm: `classes` [V], and the counts N(a, b) of neighbouring classes as `pairs`.

    `seen_from` is the transpose of `pairs`, kept as well so that both are read row by row.
    """

    def __init__(self, text: Integer[np.ndarray, "n"], vocabulary: int, number: int):
        text = np.asarray(text, np.int64)
        counts = np.bincount(text, minlength=vocabulary)
        self.order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        self.classes = np.full(vocabulary, number - 1)
        self.classes[self.order[: number - 1]] = np.arange(min(number - 1, len(self.order)))
        self.after = _Neighbours(text[:-1], text[1:], vocabulary)
        self.before = _Neighbours(text[1:], text[:-1], vocabulary)
        self.pairs = np.zeros((number, number), np.int32)
        np.add.at(self.pairs, (self.classes[text[:-1]], self.classes[text[1:]]), 1)
        self.seen_from = self.pairs.T.copy()
        self.first, self.second = self.pairs.sum(axis=1), self.pairs.sum(axis=0)
        n = np.arange(len(text) + 1)
        self._n_log_n = n * np.log(np.maximum(n, 1))

    def round(self) -> int:
        """Moves each word once. Returns the number of words that changed their class."""
        moved = 0
        for word in self.order:
            here = self.classes[word]
            after, before, twice = self._around(word)
            self._add(here, after, before, twice, -1)
            there = int(np.argmax(self._gains(after, before, twice)))
            if there != here:
                self.classes[word], moved = there, moved + 1
            self._add(there, after, before, twice, 1)
        return moved

    def objective(self) -> float:
        """F."""
        f = self._n_log_n
        return float(f[self.pairs].sum() - f[self.first].sum() - f[self.second].sum())

    def _around(self, word: int) -> tuple[np.ndarray, np.ndarray, int]:
        """The counts [C] of the classes after and before a word, without the word itself, and of the word twice."""
        found, twice = [], 0
        for neighbours in (self.after, self.before):
            words, counts = neighbours.of(word)
            own = words == word
            twice = int(counts[own].sum())
            found.append(np.bincount(self.classes[words[~own]], counts[~own], len(self.pairs)).astype(np.int32))
        return found[0], found[1], twice

    def _add(self, to: int, after: np.ndarray, before: np.ndarray, twice: int, sign: int) -> None:
        """Adds a word to a class, or, with the sign -1, takes it out."""
        for pairs, row, column in ((self.pairs, after, before), (self.seen_from, before, after)):
            pairs[to] += sign * row
            pairs[:, to] += sign * column
            pairs[to, to] += sign * twice
        for side, own, other in ((self.first, after, before), (self.second, before, after)):
            side += sign * other
            side[to] += sign * (int(own.sum()) + twice)

    def _gains(self, after: np.ndarray, before: np.ndarray, twice: int) -> Float[np.ndarray, "C"]:
        """The increase of F if a word, which is in no class, is added to each class."""
        f, diagonal = self._n_log_n, np.diagonal(self.pairs)
        both = after + before + twice
        gains = f[diagonal + both] - f[diagonal]
        for pairs, counts in ((self.seen_from, after), (self.pairs, before)):
            near = np.flatnonzero(counts)
            old = pairs[near]
            change = f[old + counts[near, None]] - f[old]
            change[np.arange(len(near)), near] = 0.0  # the diagonal is counted above
            gains += change.sum(axis=0)
        for side, own, other in ((self.first, after, before), (self.second, before, after)):
            rest = side + other  # these are the same wherever the word goes
            gains -= f[rest + int(own.sum()) + twice] - f[rest]
        return gains


class _Neighbours:
    """The distinct words beside each word, with their counts."""

    def __init__(self, words: np.ndarray, beside: np.ndarray, vocabulary: int):
        keys, self._counts = np.unique(words * vocabulary + beside, return_counts=True)
        self._words = keys % vocabulary
        self._starts = np.searchsorted(keys // vocabulary, np.arange(vocabulary + 1))

    def of(self, word: int) -> tuple[np.ndarray, np.ndarray]:
        """(words, counts) beside a word."""
        where = slice(self._starts[word], self._starts[word + 1])
        return self._words[where], self._counts[where]
