"""The squared error and the loss of positions against NumPy and scikit-learn, without rows that fill the batch."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import metrics

from attention_research.cli import main
from attention_research.data.adding import Adding
from attention_research.data.copy_memory import CopyMemory
from attention_research.tasks.position_classes import PositionClasses, PositionClassEvaluation
from attention_research.tasks.regression import Regression, RegressionEvaluation

B, T, C = 7, 11, 10


class Given:
    """A model whose values are given."""

    def __init__(self, numbers):
        self.numbers = numbers

    def values(self, batch, *, key=None):
        return self.numbers, {}


def filled(data):
    """(ids, batch) with five examples and two rows that fill the batch."""
    ids, batch = next(data.evaluation_batches("test", B))
    assert ids.tolist() == [0, 1, 2, 3, 4, -1, -1]
    return ids, batch


def test_regression_is_the_squared_error_of_the_last_position():
    data = Adding(max_length=T, train_examples=17, held_out=5)
    ids, batch = filled(data)
    numbers = np.random.default_rng(0).standard_normal((B, T, 2)).astype(np.float32)
    task, evaluation = Regression(), RegressionEvaluation()
    loss = lambda numbers: task.loss(Given(numbers), batch, None)[0]
    total, gradient = jax.value_and_grad(loss)(jnp.asarray(numbers))
    wanted, given = batch["value"][:5], numbers[:5, -1, 0]
    assert task.count(batch) == 5
    np.testing.assert_allclose(total, 5 * metrics.mean_squared_error(wanted, given), rtol=1e-5)
    expected = np.zeros_like(numbers)
    expected[:5, -1, 0] = 2 * (given - wanted)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5)  # 0 and not NaN where a row only fills the batch
    scores = evaluation.score([(ids, batch, evaluation.outputs(Given(jnp.asarray(numbers)), batch))], data)
    assert scores["squared_error"] == pytest.approx(metrics.mean_squared_error(wanted, given))
    mean = np.full(5, data.arrays("train")["value"].mean())
    assert scores["constant_error"] == pytest.approx(metrics.mean_squared_error(wanted, mean))
    assert scores["examples"] == 5 and "5 examples" in evaluation.summary(scores)


def test_the_loss_of_positions_is_scikit_learns():
    data = CopyMemory(max_length=T, length=3, train_examples=17, held_out=5)
    ids, batch = filled(data)
    numbers = np.random.default_rng(0).standard_normal((B, T, C)).astype(np.float32)
    task, evaluation = PositionClasses(), PositionClassEvaluation()
    loss = lambda numbers: task.loss(Given(numbers), batch, None)
    (total, sums), gradient = jax.value_and_grad(loss, has_aux=True)(jnp.asarray(numbers))
    p = np.exp(numbers[:5].astype(np.float64))
    p /= p.sum(-1, keepdims=True)
    target, guess = batch["target"][:5], p.argmax(-1)
    assert task.count(batch) == 5 * T and float(sums["correct"]) == (guess == target).sum()
    mean = metrics.log_loss(target.ravel(), p.reshape(-1, C), labels=range(C))
    np.testing.assert_allclose(total / (5 * T), mean, rtol=1e-5)
    np.testing.assert_allclose(gradient[:5], p - np.eye(C)[target], atol=1e-5)
    assert not gradient[5:].any()
    scores = evaluation.score([(ids, batch, evaluation.outputs(Given(jnp.asarray(numbers)), batch))], data)
    assert scores["position_loss"] == pytest.approx(mean, rel=1e-5) and scores["examples"] == 5
    assert scores["recalled"] == pytest.approx(100 * (guess == target)[:, -3:].mean())
    assert scores["memoryless_loss"] == pytest.approx(3 * math.log(8) / T)
    assert "without a memory" in evaluation.summary(scores)


def test_positions_without_a_target_count_in_no_score():
    data = CopyMemory(max_length=T, length=3, train_examples=17, held_out=5)
    batch = {"target": np.array([[1, 0, -1, -1]])}
    evaluation, right = PositionClassEvaluation(), jnp.asarray(np.eye(C)[[1, 3, 0, 0]][None] * 100)
    for numbers, loss in ((jnp.zeros((1, 4, C)), math.log(C)), (right, 50.0)):
        scores = evaluation.score([(np.zeros(1, int), batch, evaluation.outputs(Given(numbers), batch))], data)
        assert scores["position_loss"] == pytest.approx(loss, rel=1e-5)
    assert scores["recalled"] == 100.0  # the only symbol; the blank has the wrong class


def test_the_answer_without_a_memory_has_the_loss_that_is_said():
    data = CopyMemory(max_length=T, length=3, train_examples=17, held_out=5)
    numbers = np.where(np.arange(T)[:, None] < T - 3, np.eye(C)[0], np.r_[0, np.ones(8), 0])
    with np.errstate(divide="ignore"):
        logits = jnp.asarray(np.broadcast_to(np.maximum(np.log(numbers), -100), (B, T, C)), jnp.float32)
    ids, batch = filled(data)
    evaluation = PositionClassEvaluation()
    scores = evaluation.score([(ids, batch, evaluation.outputs(Given(logits), batch))], data)
    assert scores["position_loss"] == pytest.approx(scores["memoryless_loss"], rel=1e-5)


def test_a_class_without_a_value_makes_the_loss_nan():
    batch = {"target": jnp.array([[0, 3]])}
    assert np.isnan(PositionClasses().loss(Given(jnp.zeros((1, 2, 3))), batch, None)[0])


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["adding", "copy"])
def test_a_small_model_trains_and_is_evaluated(variant, tmp_path):
    run = tmp_path / "run"
    small = ["max_length=30", "data.train_examples=64", "data.held_out=32", "model.network.num_layers=2",
             "training.batch_size=8", "training.steps=4", "training.eval_every=2", "training.checkpoint_every=4",
             "evaluation.batch_size=20"]  # fmt: skip
    arguments = [f"--config.{one}" for one in small]
    assert main(["train", f"--config=series/memory:{variant}", f"--workdir={run}", *arguments]) == 0
    assert main(["evaluate", f"--workdir={run}"]) == 0
    found = json.loads((run / "evaluation.json").read_text())
    assert found["examples"] == 32 and 0 < found["squared_error" if variant == "adding" else "position_loss"] < 9
