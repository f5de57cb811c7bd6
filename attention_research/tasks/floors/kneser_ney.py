"""An n-gram model with interpolated modified Kneser-Ney smoothing (Chen & Goodman 1999, section 4.1.6 and eq. 26).

    p(w | h) = max(c(h w) - D(c(h w)), 0) / sum_v c(h v)  +  gamma(h) p(w | h'),      h' = h less its first token
    gamma(h) = (D1 N1(h .) + D2 N2(h .) + D3+ N3+(h .)) / sum_v c(h v)

c is how often an n-gram stands in the text where it has the model's order. In lower orders it is N1+(. h w), the number
of different tokens that stand before it. The lowest order is interpolated with 1 / V. A history that was not seen gives
the next lower order. With n1 to n4 n-grams of an order counted once to four times

    Y = n1 / (n1 + 2 n2),   D1 = 1 - 2 Y n2 / n1,   D2 = 2 - 3 Y n3 / n2,   D3+ = 3 - 4 Y n4 / n3

Where one of these numbers is 0, or a discount is not between 0 and the count that it is taken from, the order has
`FALLBACK` instead, as KenLM has (Heafield et al. 2013). A sentence begins after order - 1 start tokens, which are
histories only; its end is a token like any other, that the sentences hold.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Integer

from attention_research.data.tokens import TokenArray

#: The discounts of counts 1, 2 and 3 or more where the text is too small to estimate them.
FALLBACK = (0.5, 1.0, 1.5)


class KneserNey:
    """Fitted on `sentences`, whose tokens are below `vocabulary`. `discounts` fixes one discount for each order, from 1
    up; without it there are three an order, estimated.

    >>> text = TokenArray.join([[2, 3, 1], [2, 3, 3, 1]])
    >>> KneserNey(text, vocabulary=5, order=2).probabilities(np.full((5, 1), 2), np.arange(5)).round(3).tolist()
    [0.05, 0.112, 0.112, 0.675, 0.05]
    """

    def __init__(self, sentences: TokenArray, vocabulary: int, order: int, discounts: Sequence[float] | None = None):
        self.vocabulary, self.order, self._base = vocabulary, order, vocabulary + 1
        flat = np.asarray(sentences.flat, np.int64)
        # A history of k tokens is a number: its place in `_histories[k - 1]`, sorted keys of (number of the history
        # less its first token, first token). A gram is the key of (number of its history, last token).
        self._histories: list[np.ndarray] = []
        number = np.zeros(len(flat), np.int64)
        for token in self.history(sentences).T:
            keys, number = np.unique(number * self._base + token, return_inverse=True)
            self._histories.append(keys)
        grams, counts = np.unique(number * self._base + flat, return_counts=True)
        self._orders: list[_Order] = []
        for size in range(order, 0, -1):
            self._orders.insert(0, self._order(size, grams, counts, discounts))
            if size > 1:
                history, last = np.divmod(grams, self._base)
                shorter = self._histories[size - 2][history] // self._base
                grams, counts = np.unique(shorter * self._base + last, return_counts=True)

    def _order(self, size: int, grams: np.ndarray, counts: np.ndarray, fixed: Sequence[float] | None) -> _Order:
        histories = len(self._histories[size - 2]) if size > 1 else 1
        discount = discounts_of(counts) if fixed is None else np.array([0.0, *[fixed[size - 1]] * 3])
        return _Order(grams, counts, discount, grams // self._base, histories)

    def history(self, sentences: TokenArray) -> Integer[np.ndarray, "tokens before"]:
        """The order - 1 tokens before each token, the nearest first; `vocabulary` stands for the sentence's start."""
        place = np.arange(len(sentences.flat)) - np.repeat(sentences.offsets[:-1], sentences.lengths)
        found = np.full((len(place), self.order - 1), self.vocabulary, np.int64)
        for back in range(1, self.order):
            inside = np.flatnonzero(place >= back)
            found[inside, back - 1] = sentences.flat[inside - back]
        return found

    def probabilities(
        self, history: Integer[np.ndarray, "n before"], tokens: Integer[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n"]:
        """p(token | history) of each row; the history's nearest token stands first."""
        found = np.full(len(tokens), 1.0 / self.vocabulary)
        number = np.zeros(len(tokens), np.int64)
        for size, order in enumerate(self._orders, start=1):
            if size > 1:
                number = _places(self._histories[size - 2], number, history[:, size - 2], self._base)
            found = order.interpolated(number, _places(order.grams, number, tokens, self._base), found)
        return found

    def perplexity(self, sentences: TokenArray) -> float:
        """exp of the mean -log p(token), the end of each sentence included."""
        p = self.probabilities(self.history(sentences), np.asarray(sentences.flat, np.int64))
        return float(np.exp(-np.mean(np.log(p))))


class _Order:
    """The grams of one length with their discounted counts, and the weight of the lower order after each history."""

    def __init__(
        self, grams: np.ndarray, counts: np.ndarray, discount: np.ndarray, history: np.ndarray, histories: int
    ):
        self.grams = grams
        taken = discount[np.minimum(counts, 3)]
        total = np.bincount(history, counts, histories)
        self.own = np.maximum(counts - taken, 0.0) / total[history]
        self.rest = np.bincount(history, np.minimum(taken, counts), histories) / total

    def interpolated(self, history: np.ndarray, gram: np.ndarray, lower: np.ndarray) -> np.ndarray:
        """With the numbers of histories and grams, -1 for what was not seen, and the lower order's probabilities."""
        own = np.where(gram >= 0, self.own[gram], 0.0)
        return np.where(history >= 0, own + self.rest[history] * lower, lower)


def discounts_of(counts: Integer[np.ndarray, "n"]) -> Float[np.ndarray, "4"]:
    """0, D1, D2 and D3+ of the counts of an order's n-grams."""
    n1, n2, n3, n4 = (int(np.sum(counts == count)) for count in (1, 2, 3, 4))
    if min(n1, n2, n3, n4):
        y = n1 / (n1 + 2 * n2)
        found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
        if all(0 <= value <= count for count, value in enumerate(found, start=1)):
            return np.array([0.0, *found])
    return np.array([0.0, *FALLBACK])


def _places(keys: np.ndarray, first: np.ndarray, token: np.ndarray, base: int) -> np.ndarray:
    """Where the key of (first, token) stands among sorted keys; -1 where it does not, or where `first` is -1."""
    wanted = first * base + token
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((first >= 0) & (keys[place] == wanted), place, -1)
