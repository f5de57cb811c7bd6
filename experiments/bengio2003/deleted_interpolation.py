"""The interpolated trigram of Bengio et al. 2003, section 4.1 (Jelinek & Mercer 1980): deleted interpolation.

    p(w | u v) = a0(q) / V + a1(q) p1(w) + a2(q) p2(w | v) + a3(q) p3(w | u v),
    q = ceil(-log((1 + count(u v)) / T))

p1, p2 and p3 are relative frequencies in the training text of T tokens. The weights a(q), one distribution over the
four predictors for each q, maximize the likelihood of other text; EM finds them. If the history of p3 or p2 was not
seen, the predictor has the value of the next shorter one. The text begins after two start tokens.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Integer


class DeletedInterpolation:
    """A trigram model, counted in `train` and weighted by `iterations` of EM on `held_out`.

    >>> text = np.array([0, 1, 2, 0, 1, 2, 0, 1, 1])
    >>> model = DeletedInterpolation(text, np.array([0, 1, 2, 0, 3, 1, 2]), vocabulary=4)
    >>> model.probabilities(np.array([0, 1, 2])).round(3).tolist()  # 1 was followed by 2 twice and by 1 once
    [0.75, 0.75, 0.667]
    """

    def __init__(
        self, train: Integer[np.ndarray, "n"], held_out: Integer[np.ndarray, "m"], vocabulary: int, iterations: int = 20
    ):
        self.vocabulary, self._base, self._total = vocabulary, vocabulary + 1, len(train)
        first, second, last = self._trigrams(train)
        self._unigrams = np.bincount(last, minlength=self._base)
        self._histories = _Counts(second), _Counts(first * self._base + second)
        bigrams = second * self._base + last
        self._grams = _Counts(bigrams), _Counts(first * self._base**2 + bigrams)
        self.weights = self._fitted(held_out, iterations)

    def probabilities(self, text: Integer[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """p of each token of a text, given the tokens before it."""
        predictors, bins = self._predictors(text)
        return np.sum(self.weights[bins] * predictors, axis=1)

    def _fitted(self, text: np.ndarray, iterations: int) -> Float[np.ndarray, "bins 4"]:
        """The weights of each bin after EM, from equal ones."""
        predictors, bins = self._predictors(text)
        weights = np.full((int(self._bin(np.zeros(1))[0]) + 1, 4), 0.25)
        for _ in range(iterations):
            joint = weights[bins] * predictors
            posterior = joint / joint.sum(axis=1, keepdims=True)
            summed = np.stack([np.bincount(bins, column, len(weights)) for column in posterior.T], axis=1)
            seen = summed.sum(axis=1) > 0
            weights[seen] = summed[seen] / summed[seen].sum(axis=1, keepdims=True)
        return weights

    def _predictors(self, text: np.ndarray) -> tuple[Float[np.ndarray, "n 4"], Integer[np.ndarray, "n"]]:
        """(the four probabilities of each token, the bin of its history)."""
        first, second, last = self._trigrams(text)
        after_one, after_two = self._histories[0].of(second), self._histories[1].of(first * self._base + second)
        bigrams = second * self._base + last
        p = np.empty((len(text), 4))
        p[:, 0], p[:, 1] = 1 / self.vocabulary, self._unigrams[last] / self._total
        p[:, 2] = _ratio(self._grams[0].of(bigrams), after_one, p[:, 1])
        p[:, 3] = _ratio(self._grams[1].of(first * self._base**2 + bigrams), after_two, p[:, 2])
        return p, self._bin(after_two)

    def _bin(self, count: np.ndarray) -> Integer[np.ndarray, "n"]:
        return np.ceil(-np.log((1 + count) / self._total)).astype(np.int64).clip(0)

    def _trigrams(self, text: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The two tokens before each token of a text, and the token; `vocabulary` is the start token."""
        padded = np.concatenate([np.full(2, self.vocabulary), np.asarray(text, np.int64)])
        return padded[:-2], padded[1:-1], padded[2:]


class _Counts:
    """How often each key was seen."""

    def __init__(self, keys: np.ndarray):
        self._keys, self._counts = np.unique(keys, return_counts=True)

    def of(self, keys: np.ndarray) -> Integer[np.ndarray, "n"]:
        """The counts of keys, 0 for unseen ones."""
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._counts[place], 0)


def _ratio(grams: np.ndarray, histories: np.ndarray, otherwise: np.ndarray) -> Float[np.ndarray, "n"]:
    return np.where(histories > 0, grams / np.maximum(histories, 1), otherwise)
