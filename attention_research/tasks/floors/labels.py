"""Floors of predicted classes and ratings: the most frequent class, a linear model of words, the mean rating."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_research.tasks.classification import confusion, macro_f1
from attention_research.tasks.evaluation import Evaluation
from attention_research.tasks.floors.linear_text import Words, predicted

Floors = dict[str, dict[str, float]]


def evaluated_ids(data: Any, evaluation: Evaluation) -> np.ndarray:
    """The numbers of the examples that an evaluation scores, in order."""
    batches = data.evaluation_batches(evaluation.split, evaluation.batch_size, evaluation.examples)
    ids = np.concatenate([ids for ids, _ in batches])
    return np.sort(ids[ids >= 0])


def class_floors(evaluation: Evaluation, data: Any) -> Floors:
    """Of classes: "majority", the most frequent one of training; of texts, or of questions on pictures, which are then
    not looked at, "tfidf_logistic"."""
    ids, train = evaluated_ids(data, evaluation), data.labels("train")
    label, classes = data.labels(evaluation.split)[ids], len(data.classes)
    scores = lambda said: _class_scores(label, said, classes)
    found = {"majority": scores(np.full(len(label), np.bincount(train).argmax()))}
    if hasattr(data, "text"):
        there = _words(data, evaluation.split)
        found["tfidf_logistic"] = scores(predicted(_words(data, "train"), train, [there[row] for row in ids]))
    return found


def _class_scores(label: np.ndarray, said: np.ndarray, classes: int) -> dict[str, float]:
    counts = confusion(label, said, classes)
    return {"accuracy": 100.0 * float(np.trace(counts) / counts.sum()), "macro_f1": 100.0 * macro_f1(counts)}


def _words(data: Any, split: str) -> Sequence[Words]:
    """What a model reads of each text: its tokens, cut; of a question its words."""
    if hasattr(data, "tokens"):
        return data.tokens(split)
    return [text.split() for text in data.text(split)[0]]


def rating_floors(evaluation: Evaluation, data: Any) -> Floors:
    """Of ratings: "mean", that of the training split for every example."""
    from attention_research.tasks.rationale import wanted

    def ratings(split: str, examples: int | None) -> np.ndarray:
        batches = data.evaluation_batches(split, evaluation.batch_size, examples)
        return np.concatenate([np.asarray(wanted(batch), np.float64)[ids >= 0] for ids, batch in batches])

    truth, mean = ratings(evaluation.split, evaluation.examples), ratings("train", None).mean(axis=0)
    return {"mean": {"mean_squared_error": float(np.mean(np.square(truth - mean)))}}
