"""Answers: the cross-entropy and the accuracy of chosen tokens of a text, for recall (Arora et al. 2023, section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from attention_research.models.protocol import ScoresTokens
from attention_research.tasks.auxiliary import running_updates, with_auxiliary
from attention_research.tasks.evaluation import Evaluation, Scores
from attention_research.tasks.evaluation_protocol import Floor, Metric


class Answers:
    """loss = sum of -log p(y) over the tokens of "target" at which ``batch["answers"]`` is 1, and auxiliary losses.

    The model reads the whole text. It must give "predicted", the most probable token at each position, with its
    likelihoods.
    """

    def count(self, batch: Mapping[str, Array]) -> Float[Array, ""]:
        """The number of answers, at least 1."""
        return jnp.maximum(jnp.sum(batch["answers"] != 0), 1).astype(jnp.float32)

    def loss(
        self, model: ScoresTokens, batch: Mapping[str, Array], key: Key[Array, ""] | None
    ) -> tuple[Float[Array, ""], dict[str, Any]]:
        """(summed loss, other sums to log). Divided by the count, "correct" is the accuracy."""
        values, aux = model.log_likelihood(batch, key=key)
        counted = values["mask"] & (batch["answers"] != 0)
        nll = -jnp.sum(values["log_likelihood"], where=counted)
        right = jnp.sum((values["predicted"] == batch["target"]) & counted).astype(jnp.float32)
        total, sums = with_auxiliary(nll, {"negative_log_likelihood": nll, "correct": right}, aux, counted)
        return total, {**jax.lax.stop_gradient(sums), **running_updates(aux)}


class AnswerEvaluation(Evaluation):
    """The share of answers that are the most probable token at their position."""

    needs = ("log_likelihood",)
    metrics = (
        Metric(
            "accuracy",
            "accuracy, %",
            "higher",
            floors=(
                Floor("chance", "one of the values", "chance_accuracy", "guessing one of the values", "guessing's"),
            ),
        ),
    )

    def outputs(self, model: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
        """{"right" [B]: the number of right answers in a row, "answers" [B]: the number of answers}."""
        values, _ = model.log_likelihood(batch)
        counted = values["mask"] & (batch["answers"] != 0)
        right = jnp.sum((values["predicted"] == batch["target"]) & counted, axis=1)
        return {"right": right, "answers": jnp.sum(counted, axis=1)}

    def score(self, triples: Iterable[tuple[np.ndarray, Mapping, Mapping]], data: Any) -> Scores:
        """`accuracy` in percent, the number of `answers`, and `chance_accuracy`, that of guessing one of the values."""
        right, answers = 0, 0
        for ids, _, outputs in triples:
            real = np.asarray(ids) >= 0
            right, answers = right + int(outputs["right"][real].sum()), answers + int(outputs["answers"][real].sum())
        accuracy = 100.0 * right / max(answers, 1)
        return {"accuracy": accuracy, "answers": answers, "chance_accuracy": 100.0 * data.chance}

    def summary(self, scores: Mapping[str, Any]) -> str:
        """The scores in one line."""
        guessed = f"guessing one of the values {scores['chance_accuracy']:.2f}%"
        return f"accuracy {scores['accuracy']:.2f}% · {scores['answers']:,} answers · {guessed}"
