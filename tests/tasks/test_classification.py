"""Accuracy, macro-F1 and the loss, against scikit-learn and by hand."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import metrics

from attention_research.tasks.classification import (
    Classification,
    ClassificationEvaluation,
    confusion,
    macro_f1,
)

C = 5


@pytest.fixture
def guesses():
    rng = np.random.default_rng(6)
    label = rng.integers(0, C, 61)
    return label, np.where(rng.random(61) < 0.6, label, rng.integers(0, C, 61))


def test_macro_f1_and_accuracy_are_scikit_learns(guesses):
    label, predicted = guesses
    counts = confusion(label, predicted, C)
    assert np.array_equal(counts[:, :C], metrics.confusion_matrix(label, predicted, labels=range(C)))
    assert not counts[:, C].any()
    expected = metrics.f1_score(label, predicted, average="macro", labels=range(C), zero_division=0)
    assert macro_f1(counts) == pytest.approx(expected, abs=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_a_prediction_outside_of_the_classes_is_wrong(guesses):
    """A model with more classes than the data. 5 of 5 classes is class 0 of the next label in a flat index."""
    label, predicted = guesses
    predicted = np.where(np.arange(len(label)) % 7 == 0, C + label % 2, predicted)
    data = SimpleNamespace(classes=tuple("abcde"), labels=lambda split: label)
    ids = np.arange(len(label))
    scores = ClassificationEvaluation().score([(ids, {"label": label}, {"predicted": predicted})], data)
    assert scores["accuracy"] == pytest.approx(100 * metrics.accuracy_score(label, predicted))
    expected = metrics.f1_score(label, predicted, average="macro", labels=range(C), zero_division=0)
    assert scores["macro_f1"] == pytest.approx(100 * expected, abs=1e-9)


def test_an_absent_class_counts_as_zero():
    assert macro_f1(confusion(np.array([0, 0]), np.array([0, 0]), 2)) == 0.5


def test_a_split_is_scored_without_padding_rows(guesses):
    label, predicted = guesses
    data = SimpleNamespace(classes=tuple("abcde"), labels=lambda split: np.array([2, 2, 1]))
    ids = np.arange(67) - 6  # the first six rows are padding
    filled = np.pad(label, (6, 0), constant_values=-1), np.pad(predicted, (6, 0))
    halves = [slice(0, 31), slice(31, 67)]
    triples = [(np.maximum(ids[h], -1), {"label": filled[0][h]}, {"predicted": filled[1][h]}) for h in halves]
    scores = ClassificationEvaluation().score(triples, data)
    assert scores["accuracy"] == pytest.approx(100 * metrics.accuracy_score(label, predicted))
    assert scores["majority_accuracy"] == pytest.approx(100 * np.mean(label == 2)) and scores["examples"] == 61
    assert "61 examples" in ClassificationEvaluation().summary(scores)


def test_the_loss_is_summed_over_texts_without_padding_rows():
    p = np.array([[0.7, 0.3], [0.2, 0.8], [0.6, 0.4]])
    model = SimpleNamespace(log_probabilities=lambda batch, key=None: (jnp.log(jnp.asarray(p)), {}))
    task, batch = Classification(), {"label": jnp.asarray([1, 1, -1])}
    total, sums = task.loss(model, batch, None)
    assert total == pytest.approx(-np.log(0.3) - np.log(0.8), rel=1e-6)
    assert sums["correct"] == 1 and task.count(batch) == 2
    assert task.count({"label": jnp.asarray([-1, -1])}) == 1
    outside, _ = task.loss(model, {"label": jnp.asarray([2, 0, 0])}, None)
    assert np.isnan(outside)  # the model has no class 2
