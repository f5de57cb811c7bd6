"""Answers: the loss and the accuracy of chosen tokens, by NumPy from the model's own probabilities."""

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.cli import main
from attention_research.config import build_model
from attention_research.data.recall import Recall
from attention_research.tasks.answers import AnswerEvaluation, Answers
from attention_research.tokens import BOS
from tests.models.facts import QUICKLY

MODELS = {
    "transformer_decoder": {"num_layers": 1, "num_heads": 2, "feed_forward": {"kind": "dense", "hidden_width": 11}},
    "recurrent_language_model": {"num_layers": 1},
}


@pytest.mark.parametrize(
    "kind", [pytest.param("transformer_decoder", marks=pytest.mark.slow), "recurrent_language_model"]
)
def test_the_loss_and_the_accuracy_are_those_of_the_chosen_tokens(kind):
    data = Recall(max_length=16, vocabulary_size=23, pairs=3, train_examples=5, held_out=5)
    section = {"kind": kind, "width": 8, "vocabulary": {"kind": "untied"}, **MODELS[kind]}
    model = build_model(section, max_length=16, vocabulary_size=23)(rngs=nnx.Rngs(0))
    batch, task, evaluation = data.arrays("train"), Answers(), AnswerEvaluation()

    def step(cache, tokens):
        (cache, log_p, _), token = model.step(cache[0], cache[1]), tokens
        return (cache, token), log_p

    @partial(jax.jit, compiler_options=QUICKLY)
    def facts(batch):
        first = (model.start(5), jnp.full((5,), BOS, jnp.int32))
        stepped = jax.lax.scan(step, first, batch["target"].T)[1]
        return task.loss(model, batch, None), task.count(batch), evaluation.outputs(model, batch), stepped

    (total, sums), count, outputs, stepped = jax.tree.map(np.asarray, facts(jax.tree.map(jnp.asarray, batch)))
    where = np.nonzero(batch["answers"])
    log_p = np.swapaxes(stepped, 0, 1)[where]
    answer = batch["target"][where]
    right = log_p.argmax(1) == answer
    assert count == 15 and total == sums["negative_log_likelihood"] and sums["correct"] == right.sum()
    np.testing.assert_allclose(total, -log_p[np.arange(15), answer].sum(), rtol=1e-5)
    ids = np.array([0, 1, 2, 3, -1])
    scores = evaluation.score([(ids, batch, outputs)], data)
    of_rows = np.zeros(5)
    np.add.at(of_rows, where[0], right)
    assert scores["answers"] == 12 and scores["accuracy"] == pytest.approx(100 * of_rows[:4].sum() / 12)
    assert scores["chance_accuracy"] == pytest.approx(100 / 3)
    assert evaluation.summary(scores).startswith(f"accuracy {scores['accuracy']:.2f}% · 12 answers · guessing one of")


def test_no_other_token_counts():
    """The gradient with respect to the other tokens' log-likelihoods is 0."""
    batch = {"target": jnp.array([[5, 6, 7]]), "answers": jnp.array([[0, 1, 0]])}

    class Given:
        def __init__(self, values):
            self.values = values

        def log_likelihood(self, batch, *, key=None):
            values = {"log_likelihood": self.values, "predicted": jnp.array([[5, 6, 6]])}
            return {**values, "mask": batch["target"] != 0}, {}

    gradient = jax.grad(lambda x: Answers().loss(Given(x), batch, None)[0])(jnp.zeros((1, 3)))
    assert gradient.tolist() == [[0, -1, 0]]
    assert float(Answers().loss(Given(jnp.zeros((1, 3))), batch, None)[1]["correct"]) == 1


def test_auxiliary_losses_are_weighted_by_the_answers():
    """Divided by the count, as the train step does, a loss of 0.25 in every row stays 0.25."""
    batch = {"target": jnp.array([[5, 6, 7], [5, 6, 0]]), "answers": jnp.array([[0, 1, 0], [0, 1, 0]])}

    class Balanced:
        def log_likelihood(self, batch, *, key=None):
            values = {"log_likelihood": jnp.zeros((2, 3)), "predicted": batch["target"], "mask": batch["target"] != 0}
            return values, {
                "layers": {"loss": {"balance": jnp.full((1, 2), 0.25)}, "metrics": {"load": jnp.ones((1, 2))}}
            }

    total, sums = Answers().loss(Balanced(), batch, None)
    count = Answers().count(batch)
    assert total / count == sums["auxiliary_loss"] / count == sums["balance"] / count == 0.25
    assert sums["load"] / count == 1.0


@pytest.mark.slow
def test_the_smoke_variant_trains_and_is_evaluated(tmp_path):
    run = tmp_path / "run"
    assert main(["train", "--config=language_modelling/recall:smoke", f"--workdir={run}"]) == 0
    assert main(["evaluate", f"--workdir={run}"]) == 0
    found = json.loads((run / "evaluation.json").read_text())
    assert (
        0 <= found["accuracy"] <= 100 and found["answers"] == 48 and found["chance_accuracy"] == pytest.approx(100 / 3)
    )
