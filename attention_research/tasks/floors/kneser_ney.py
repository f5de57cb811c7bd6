"""An n-gram model with interpolated modified Kneser-Ney smoothing (Chen & Goodman 1999, section 4.1.6 and eq. 26).

    p(w | h) = max(c(h w) - D(c(h w)), 0) / sum_v c(h v)  +  gamma(h) p(w | h'),      h' = h without its first token
    gamma(h) = (D1 N1(h .) + D2 N2(h .) + D3+ N3+(h .)) / sum_v c(h v)

For n-grams of the highest order, c is the number of occurrences in the text. For lower orders, c is N1+(. h w), the
number of different tokens that precede the n-gram. The lowest order is interpolated with 1 / V. After an unseen
history, the next lower order is used. If n1 to n4 are the numbers of n-grams of an order with counts 1 to 4, then

    Y = n1 / (n1 + 2 n2),   D1 = 1 - 2 Y n2 / n1,   D2 = 2 - 3 Y n3 / n2,   D3+ = 3 - 4 Y n4 / n3

If one of these numbers is 0, or a discount is not between 0 and its count, the order uses `FALLBACK`, as KenLM does
(Heafield et al. 2013). A sentence begins with order - 1 start tokens, which only occur in histories. The end of a
sentence is an ordinary token of the sentences.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Integer

from attention_research.data.tokens import TokenArray

#: The discounts for counts 1, 2, and 3 or more if the text is too small to estimate them.
FALLBACK = (0.5, 1.0, 1.5)


class KneserNey:
    """An n-gram model, fitted on `sentences` with token ids below `vocabulary`.

    `discounts` sets one fixed discount for each order, beginning with order 1. By default, three discounts are
    estimated for each order.

    >>> text = TokenArray.join([[2, 3, 1], [2, 3, 3, 1]])
    >>> KneserNey(text, vocabulary=5, order=2).probabilities(np.full((5, 1), 2), np.arange(5)).round(3).tolist()
    [0.05, 0.112, 0.112, 0.675, 0.05]
    """

    def __init__(self, sentences: TokenArray, vocabulary: int, order: int, discounts: Sequence[float] | None = None):
        self.vocabulary, self.order, self._base = vocabulary, order, vocabulary + 1
        flat = np.asarray(sentences.flat, np.int64)
        # A history of k tokens is represented by its index in `_histories[k - 1]`. This array has the sorted keys of
        # (index of the history without its first token, first token). An n-gram is the key of (index of its history,
        # last token).
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
        """The order - 1 tokens before each token, the nearest one first. `vocabulary` is the start token."""
        place = np.arange(len(sentences.flat)) - np.repeat(sentences.offsets[:-1], sentences.lengths)
        found = np.full((len(place), self.order - 1), self.vocabulary, np.int64)
        for back in range(1, self.order):
            inside = np.flatnonzero(place >= back)
            found[inside, back - 1] = sentences.flat[inside - back]
        return found

    def probabilities(
        self, history: Integer[np.ndarray, "n before"], tokens: Integer[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n"]:
        """p(token | history) of each row. The nearest token of the history comes first."""
        found = np.full(len(tokens), 1.0 / self.vocabulary)
        number = np.zeros(len(tokens), np.int64)
        for size, order in enumerate(self._orders, start=1):
            if size > 1:
                number = _places(self._histories[size - 2], number, history[:, size - 2], self._base)
            found = order.interpolated(number, _places(order.grams, number, tokens, self._base), found)
        return found

    def perplexity(self, sentences: TokenArray) -> float:
        """exp of the mean -log p(token), including the end of each sentence."""
        p = self.probabilities(self.history(sentences), np.asarray(sentences.flat, np.int64))
        return float(np.exp(-np.mean(np.log(p))))


class _Order:
    """The n-grams of one length with their discounted counts, and the weight of the lower order after each history."""

    def __init__(
        self, grams: np.ndarray, counts: np.ndarray, discount: np.ndarray, history: np.ndarray, histories: int
    ):
        self.grams = grams
        taken = discount[np.minimum(counts, 3)]
        total = np.bincount(history, counts, histories)
        self.own = np.maximum(counts - taken, 0.0) / total[history]
        self.rest = np.bincount(history, np.minimum(taken, counts), histories) / total

    def interpolated(self, history: np.ndarray, gram: np.ndarray, lower: np.ndarray) -> np.ndarray:
        """The interpolated probabilities, given the indices of histories and n-grams (-1 if unseen) and the
        probabilities of the lower order."""
        own = np.where(gram >= 0, self.own[gram], 0.0)
        return np.where(history >= 0, own + self.rest[history] * lower, lower)


def discounts_of(counts: Integer[np.ndarray, "n"]) -> Float[np.ndarray, "4"]:
    """The discounts [0, D1, D2, D3+], estimated from the counts of the n-grams of an order."""
    n1, n2, n3, n4 = (int(np.sum(counts == count)) for count in (1, 2, 3, 4))
    if min(n1, n2, n3, n4):
        y = n1 / (n1 + 2 * n2)
        found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
        if all(0 <= value <= count for count, value in enumerate(found, start=1)):
            return np.array([0.0, *found])
    return np.array([0.0, *FALLBACK])


def _places(keys: np.ndarray, first: np.ndarray, token: np.ndarray, base: int) -> np.ndarray:
    """The index of the key of (first, token) in the sorted keys, or -1 if it is missing or `first` is -1."""
    wanted = first * base + token
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((first >= 0) & (keys[place] == wanted), place, -1)
