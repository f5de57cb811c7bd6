"""TF-IDF vectors of words and pairs of words, and multinomial logistic regression on them, by scikit-learn.

Term frequencies are 1 + log(count), the inverse document frequency is log((1 + N) / (1 + df)) + 1, vectors have length
1, and terms of one training text alone are left out. The regression's L2 penalty is scikit-learn's for C = `INVERSE`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

#: C, the inverse of the penalty's weight.
INVERSE = 10.0
_STEPS = 200

#: A text: its words, or the numbers that stand for them.
Words = Sequence[str] | Sequence[int] | np.ndarray


def predicted(train: Sequence[Words], labels: np.ndarray, texts: Sequence[Words]) -> np.ndarray:
    """The most probable class of each of the `texts`, fitted on `train`, whose classes are `labels`.

    >>> text = [["good", "film"], ["good", "one"], ["bad", "film"], ["bad", "one"]]
    >>> predicted(text, np.array([1, 1, 0, 0]), [["a", "bad", "book"]]).tolist()
    [0]
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(labels)) == 1:
        return np.full(len(texts), labels[0])
    terms = TfidfVectorizer(analyzer=_terms, sublinear_tf=True, min_df=2, dtype=np.float64)
    try:
        vectors = terms.fit_transform(train)
    except ValueError:  # no term stands in two texts
        return np.full(len(texts), np.bincount(labels).argmax())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a floor need not be the optimum
        model = LogisticRegression(C=INVERSE, max_iter=_STEPS).fit(vectors, labels)
    return model.predict(terms.transform(texts))


def _terms(text: Words) -> list[tuple]:
    words = list(text)
    return [(word,) for word in words] + list(zip(words[:-1], words[1:], strict=True))
