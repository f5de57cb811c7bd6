"""Classification: the cross-entropy of one label per example, and the accuracy and macro-F1 of predictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from attention_research.models.protocol import Classifies
from attention_research.tasks.auxiliary import running_updates, with_auxiliary
from attention_research.tasks.evaluation import Evaluation, Scores
from attention_research.tasks.evaluation_protocol import ACCURACY, Metric


class Classification:
    """loss = -log p(label), summed over the examples, and their auxiliary losses.

    A label of -1 marks a row that only fills the batch. A label without a class in the model makes the loss NaN, which
    stops the run.
    """

    def count(self, batch: Mapping[str, Array]) -> Float[Array, ""]:
        """The number of examples, at least 1."""
        return jnp.maximum(jnp.sum(batch["label"] >= 0), 1).astype(jnp.float32)

    def loss(
        self, model: Classifies, batch: Mapping[str, Array], key: Key[Array, ""] | None
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """(summed loss, other sums to log). "correct" is the number of correct predictions; divided by the count, it is
        the accuracy. In training, the running statistics of the model are added (`tasks.auxiliary`)."""
        log_p, aux = model.log_probabilities(batch, key=key)
        label, real = jnp.maximum(batch["label"], 0), batch["label"] >= 0
        total = -jnp.sum(jnp.take_along_axis(log_p, label[:, None], axis=1)[:, 0], where=real)
        right = jnp.sum((jnp.argmax(log_p, axis=1) == label) & real).astype(jnp.float32)
        total, sums = with_auxiliary(total, {"correct": right}, aux, real[:, None])
        return total, {**jax.lax.stop_gradient(sums), **running_updates(aux)}


class ClassificationEvaluation(Evaluation):
    """Compares the most probable class with the label."""

    needs = ("log_probabilities",)
    metrics = (
        ACCURACY,
        Metric("macro_f1", "macro-F1", "higher"),
    )

    def outputs(self, model: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
        """{"predicted" [B]: the most probable class, "weights" [B S]: the weight of each position}."""
        log_p, aux = model.log_probabilities(batch)
        return {"predicted": jnp.argmax(log_p, axis=1), "weights": aux["pooling"]["weights"]}

    def score(self, triples: Iterable[tuple[np.ndarray, Mapping, Mapping]], data: Any) -> Scores:
        """`accuracy` and `macro_f1` in percent, the number of `examples`, and `majority_accuracy`.

        The latter is the accuracy of always predicting the class that is most frequent in training.
        """
        found = [(batch["label"][ids >= 0], outputs["predicted"][ids >= 0]) for ids, batch, outputs in triples]
        label, predicted = (np.concatenate(side) for side in zip(*found, strict=True))
        counts = confusion(label, predicted, len(data.classes))
        most = np.bincount(data.labels("train")).argmax()
        return {
            "accuracy": 100.0 * float(np.trace(counts) / counts.sum()),
            "macro_f1": 100.0 * macro_f1(counts),
            "majority_accuracy": 100.0 * float(np.mean(label == most)),
            "examples": len(label),
        }

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """The floors: the most frequent class, and for texts a linear model of words."""
        from attention_research.tasks.floors.labels import class_floors

        return class_floors(self, data)

    def summary(self, scores: Mapping[str, Any]) -> str:
        """The scores in one line."""
        return (
            f"accuracy {scores['accuracy']:.2f}% · macro-F1 {scores['macro_f1']:.2f} · {scores['examples']:,} examples"
            f" · always the most frequent class {scores['majority_accuracy']:.2f}%"
        )


def confusion(label: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """The confusion matrix [classes classes+1]: the number of examples of class i that were predicted as class j.

    The last column counts predictions that are none of the classes, which a model with more classes can make.

    >>> confusion(np.array([0, 0, 1]), np.array([0, 1, 7]), 2).tolist()
    [[1, 1, 0], [0, 0, 1]]
    """
    places = label * (classes + 1) + np.minimum(predicted, classes)
    return np.bincount(places, minlength=classes * (classes + 1)).reshape(classes, classes + 1)


def macro_f1(counts: np.ndarray) -> float:
    """The mean over the classes of 2 correct / (labelled + predicted). A class without labels and predictions has F1
    0."""
    size = counts[:, :-1].sum(axis=0) + counts.sum(axis=1)
    return float(np.mean(2 * np.diag(counts) / np.maximum(size, 1)))
