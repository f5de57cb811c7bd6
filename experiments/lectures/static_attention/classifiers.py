"""Inspects text classifiers: the weight of each term, the terms that are evidence for a class, and texts with their
weights.

It also measures the accuracy of the same classifier with fewer training texts, and that of TF-IDF with logistic
regression on the same texts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

import jax
import numpy as np

from attention_research.config import Config
from attention_research.tokens import UNKNOWN
from attention_research.training.evaluation import Trained
from attention_research.training.trainer import Trainer

from .token_weights import (
    document_frequency,
    inverse_document_frequency,
    logistic_regression,
    mutual_information,
    rank_correlation,
    tf_idf,
    top_terms,
    unit_length,
)


def on_fewer(config: Config, examples: int, steps: int) -> dict[str, Any]:
    """Trains a config from scratch, in memory, for `steps` on `examples` training texts, and returns its scores."""
    trainer = Trainer(config.override([("data.train_examples", examples), ("training.steps", steps)]))
    settings, evaluation = trainer.settings, trainer.parts.evaluation()
    data = trainer.data.prepare()
    state = trainer.execution.start()
    batches = data.train_batches(seed=settings.seed, batch_size=settings.batch_size)
    for _, batch in islice(batches, steps):
        state, _ = trainer.execution.step(state, trainer.execution.place(batch))
    model = state["parameters"], state["statistics"]
    outputs = jax.jit(lambda model, batch: evaluation.outputs(trainer.structure.merge(*model), batch))
    rows = data.evaluation_batches(evaluation.split, evaluation.batch_size, examples=evaluation.examples)
    return evaluation.score(((ids, batch, jax.device_get(outputs(model, batch))) for ids, batch in rows), data)


def term_weights(trained: Trained, examples: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Returns (weight [V], occurrences [V]) over training texts.

    The weight of a term is averaged over its occurrences. For one occurrence it is the share of the text's weights
    times the length of the text, so that uniform weights are 1.
    """
    total, count = np.zeros(trained.data.vocabulary_size), np.zeros(trained.data.vocabulary_size, int)
    batches = trained.data.evaluation_batches("train", 128, examples=examples)
    for _, batch, outputs in trained.outputs(trained.model(), batches):
        real = batch["source"] != 0
        relative = outputs["weights"] * real.sum(axis=1, keepdims=True)
        np.add.at(total, batch["source"][real], relative[real])
        np.add.at(count, batch["source"][real], 1)
    return total / np.maximum(count, 1), count


def read_terms(trained: Trained, *, minimum: int = 10, examples: int = 2000) -> dict[str, Any]:
    """Describes the terms that occur at least `minimum` times in the texts that are read, most frequent first.

    Returns the lists "word", "idf", "weight" (`term_weights`) and "bits" (mutual information with the label), and the
    rank correlations of the weight with IDF and with the bits. A correlation is None if all weights are equal.
    """
    data = trained.data
    texts, label, size = data.tokens("train"), data.labels("train"), data.vocabulary_size
    weight, count = term_weights(trained, examples)
    frequency = np.pad(data.document_frequency, (0, size - len(data.document_frequency)))
    idf = inverse_document_frequency(frequency, len(texts))
    bits = mutual_information(texts, label, size=size, classes=len(data.classes))
    order = np.argsort(-count, kind="stable")
    terms = [term for term in order if term > UNKNOWN and count[term] >= minimum]
    equal = len(terms) < 3 or np.ptp(weight[terms]) < 1e-5
    rho = lambda other: None if equal else rank_correlation(weight[terms], other[terms])
    return {
        "word": words(data, terms),
        **{name: values[terms].round(4).tolist() for name, values in
           (("idf", idf), ("weight", weight), ("bits", bits))},
        "idf_correlation": rho(idf),
        "bits_correlation": rho(bits),
    }  # fmt: skip


def words(data: Any, terms: Any) -> list[str]:
    """Returns the text of each term."""
    return data.tokenizer.decode([[int(term)] for term in terms])


def speaking_terms(trained: Trained, count: int = 10, minimum: int = 10) -> dict[str, list[str]]:
    """Maps each class to the terms that are the strongest evidence for it, for a weighted average of embeddings.

    The evidence of a term is its weight times the score that the output layer gives to its embedding, minus the mean
    over classes. The dict is empty for a pooling that is not such an average.
    """
    model = trained.trainer.structure.merge(*trained.model())
    table, kernel = np.asarray(model.embedding.table[...]), np.asarray(model.head.kernel[...])
    if any(hasattr(model.pooling, name) for name in ("value", "forward_cell")):
        return {}
    weight, occurrences = term_weights(trained)
    known = np.arange(len(weight)) > UNKNOWN
    contribution = np.where((known & (occurrences >= minimum))[:, None], weight[:, None] * (table @ kernel), 0.0)
    tops = top_terms(contribution, count)
    return {name: words(trained.data, terms) for name, terms in zip(trained.data.classes, tops, strict=True)}


def marked_texts(trained: Trained, count: int = 4, longest: int = 60) -> list[dict[str, Any]]:
    """Returns the first short test texts in a fixed order, with the relative weight of each token, the class and the
    prediction."""
    found: dict[int, dict[str, Any]] = {}
    batches = trained.data.evaluation_batches(trained.evaluation.split, 64, examples=256)
    classes = trained.data.classes
    for ids, batch, outputs in trained.outputs(trained.model(), batches):
        for row in np.flatnonzero(ids >= 0):
            length = int((batch["source"][row] != 0).sum()) - 1  # without the end-of-sentence symbol
            if 5 <= length <= longest:
                found[int(ids[row])] = {
                    "words": words(trained.data, batch["source"][row, :length]),
                    "weights": (outputs["weights"][row, :length] * (length + 1)).round(3).tolist(),
                    "class": classes[batch["label"][row]],
                    "predicted": classes[outputs["predicted"][row]],
                }
    return [found[number] for number in sorted(found)[:count]]


def bag_of_words(data: Any, split: str, *, penalty: float = 0.1, steps: int = 100) -> dict[str, Any]:
    """Fits multinomial logistic regression on TF-IDF vectors of length 1 of the training texts.

    Returns "predicted" and "label" of a split, and "kernel" [V C], multiplied by IDF: the contribution of an occurrence
    of a term, up to the normalization of the text.
    """
    size, texts = data.vocabulary_size, data.tokens("train")
    idf = inverse_document_frequency(document_frequency(texts, size), len(texts))

    def vectors(some: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        terms, weights = tf_idf(some, idf)
        return terms, unit_length(weights)

    fitted: dict[str, Any] = {"size": size, "classes": len(data.classes), "penalty": penalty, "steps": steps}
    kernel, bias = logistic_regression(*vectors(texts), data.labels("train"), **fitted)
    terms, weights = vectors(data.tokens(split))
    logits = np.einsum("nl,nlc->nc", weights, kernel[terms]) + bias
    return {"predicted": logits.argmax(axis=1), "label": data.labels(split), "kernel": kernel * idf[:, None]}


def formula_difference(data: Any, examples: int = 300) -> float | None:
    """The largest difference, over some training texts, between TF log(N / df) and the output of scikit-learn's
    `TfidfTransformer` (norm=None, smooth_idf=False) minus the count. None if scikit-learn is not installed."""
    try:
        from sklearn.feature_extraction.text import TfidfTransformer
    except ModuleNotFoundError:
        return None
    texts, size = data.tokens("train")[:examples], data.vocabulary_size
    frequency = document_frequency(texts, size)
    counts = np.stack([np.bincount(ids, minlength=size) for ids in texts])
    terms, weights = tf_idf(texts, inverse_document_frequency(frequency, len(texts)))
    ours = np.zeros(counts.shape)
    np.add.at(ours, (np.arange(len(texts))[:, None], terms), weights)
    held = frequency > 0
    theirs = TfidfTransformer(norm=None, smooth_idf=False).fit_transform(counts[:, held]).toarray() - counts[:, held]
    largest = float(np.abs(ours[:, held] - theirs).max())
    return largest if math.isfinite(largest) else None
