"""The log-likelihood of a text by a language model, in nats for each token, beside n-gram models of high order.

For texts of characters, where n-grams of 4 to 7 characters are strong baselines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from attention_research.tasks.evaluation import Evaluation, Scores
from attention_research.tasks.evaluation_protocol import Floor, Metric

#: The floors and the orders of their n-gram models.
ORDERS = {"kneser_ney_4": 4, "kneser_ney_5": 5, "kneser_ney_6": 6, "kneser_ney_7": 7}


class CharactersEvaluation(Evaluation):
    """The mean negative log-likelihood of the tokens that are not padding."""

    needs = ("log_likelihood",)
    metrics = (
        Metric(
            "nats",
            "nats a character",
            "lower",
            digits=3,
            floor_digits=3,
            floors=(
                Floor("kneser_ney_4", "4-gram (Kneser-Ney)"),
                Floor("kneser_ney_5", "5-gram (Kneser-Ney)"),
                Floor("kneser_ney_6", "6-gram (Kneser-Ney)"),
                Floor("kneser_ney_7", "7-gram (Kneser-Ney)"),
            ),
        ),
    )

    def outputs(self, model: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
        """{"log_likelihood" [B]: the sum over the tokens of a row, "tokens" [B]: their number}."""
        values, _ = model.log_likelihood(batch)
        summed = jnp.sum(values["log_likelihood"], axis=1, where=values["mask"])
        return {"log_likelihood": summed, "tokens": jnp.sum(values["mask"], axis=1)}

    def score(self, triples: Iterable[tuple[np.ndarray, Mapping[str, Any], Mapping[str, Any]]], data: Any) -> Scores:
        """`nats`, and the number of `tokens`."""
        del data
        total, tokens = 0.0, 0
        for ids, _, outputs in triples:
            real = np.asarray(ids) >= 0
            total += float(np.sum(np.asarray(outputs["log_likelihood"], np.float64)[real]))
            tokens += int(np.sum(outputs["tokens"][real]))
        return {"nats": -total / max(tokens, 1), "tokens": tokens}

    def summary(self, scores: Mapping[str, Any]) -> str:
        """The scores in one line."""
        return f"{scores['nats']:.4f} nats a character · {scores['tokens']:,} characters"

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """The n-gram models, fitted on the training text."""
        from attention_research.tasks.floors.kneser_ney import KneserNey

        learned, scored = data.target_sentences("train"), data.target_sentences(self.split, self.examples)
        models = {name: KneserNey(learned, data.tokenizer.size, order) for name, order in ORDERS.items()}
        return {name: {"nats": math.log(model.perplexity(scored))} for name, model in models.items()}
