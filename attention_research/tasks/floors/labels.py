"""Floors of predicted classes and ratings: the most frequent class, a linear model of words, the mean rating.

The linear model is the multinomial logistic regression of scikit-learn on TF-IDF vectors of words and pairs of words.
Term frequencies are 1 + log(count), the inverse document frequency is log((1 + N) / (1 + df)) + 1, and vectors are
normalized to length 1. Terms that occur in only one training text are left out. The L2 penalty is that of scikit-learn
for C = `INVERSE`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from attention_research.data.protocol import Data, HasText, HasTokens, Labelled
from attention_research.tasks.classification import confusion, macro_f1
from attention_research.tasks.evaluation import Evaluation

Floors = dict[str, dict[str, float]]
#: C, the inverse of the weight of the penalty.
INVERSE = 10.0
_STEPS = 200

#: A text as its words, or as token ids.
Words = Sequence[str] | Sequence[int] | np.ndarray


def evaluated_ids(data: Data, evaluation: Evaluation) -> np.ndarray:
    """The ids of the examples that an evaluation scores, in ascending order."""
    batches = data.evaluation_batches(evaluation.split, evaluation.batch_size, evaluation.examples)
    ids = np.concatenate([ids for ids, _ in batches])
    return np.sort(ids[ids >= 0])


def class_floors(evaluation: Evaluation, data: Labelled) -> Floors:
    """The floors of classification: "majority", the most frequent class of the training split, and "tfidf_logistic" for
    texts and for questions about images (which are ignored)."""
    ids, train = evaluated_ids(data, evaluation), data.labels("train")
    label, classes = data.labels(evaluation.split)[ids], len(data.classes)
    scores = lambda said: _class_scores(label, said, classes)
    found = {"majority": scores(np.full(len(label), np.bincount(train).argmax()))}
    if isinstance(data, HasText):
        there = _words(data, evaluation.split)
        found["tfidf_logistic"] = scores(predicted(_words(data, "train"), train, [there[row] for row in ids]))
    return found


def _class_scores(label: np.ndarray, said: np.ndarray, classes: int) -> dict[str, float]:
    counts = confusion(label, said, classes)
    return {"accuracy": 100.0 * float(np.trace(counts) / counts.sum()), "macro_f1": 100.0 * macro_f1(counts)}


def _words(data: HasText, split: str) -> Sequence[Words]:
    """The tokens of each text, truncated as for a model, or the words of a question."""
    if isinstance(data, HasTokens):
        return data.tokens(split)
    return [text.split() for text in data.text(split)[0]]


def rating_floors(evaluation: Evaluation, data: Data) -> Floors:
    """The floor of ratings: "mean", the mean rating of the training split."""
    from attention_research.tasks.rationale import wanted

    def ratings(split: str, examples: int | None) -> np.ndarray:
        batches = data.evaluation_batches(split, evaluation.batch_size, examples)
        return np.concatenate([np.asarray(wanted(batch), np.float64)[ids >= 0] for ids, batch in batches])

    truth, mean = ratings(evaluation.split, evaluation.examples), ratings("train", None).mean(axis=0)
    return {"mean": {"mean_squared_error": float(np.mean(np.square(truth - mean)))}}


def predicted(train: Sequence[Words], labels: np.ndarray, texts: Sequence[Words]) -> np.ndarray:
    """The predicted class of each of the `texts`. The model is fitted on the texts `train` with classes `labels`.

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
    except ValueError:  # no term occurs in two texts
        return np.full(len(texts), np.bincount(labels).argmax())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a floor does not need to be optimal
        model = LogisticRegression(C=INVERSE, max_iter=_STEPS).fit(vectors, labels)
    return model.predict(terms.transform(texts))


def _terms(text: Words) -> list[tuple]:
    words = list(text)
    return [(word,) for word in words] + list(zip(words[:-1], words[1:], strict=True))
