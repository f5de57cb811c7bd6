"""Perplexity of the targets' tokens: how a language model is scored, which decodes nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from attention_research.data.protocol import Writable
from attention_research.tasks.evaluation import Evaluation, Scores
from attention_research.tasks.evaluation_protocol import PERPLEXITY, Metric


class PerplexityEvaluation(Evaluation):
    """exp of the mean negative log-likelihood a non-padding target token, the end of the sentence included."""

    needs = ("log_likelihood",)
    metrics = (PERPLEXITY, Metric("bits", "bits a token", "lower", digits=3))

    def outputs(self, model: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
        """{"log_likelihood": [B], the sum over a row's non-padding tokens, "tokens": [B], how many these are}."""
        values, _ = model.log_likelihood(batch)
        summed = jnp.sum(values["log_likelihood"], axis=1, where=values["mask"])
        return {"log_likelihood": summed, "tokens": jnp.sum(values["mask"], axis=1)}

    def score(self, triples: Iterable[tuple[np.ndarray, Mapping[str, Any], Mapping[str, Any]]], data: Any) -> Scores:
        """`perplexity`, `bits` a token, `sentences`, and the `unigram_perplexity` that a trained model beats."""
        total, tokens, sentences = 0.0, 0, 0
        for ids, _, outputs in triples:
            real = np.asarray(ids) >= 0
            total += float(np.sum(np.asarray(outputs["log_likelihood"], np.float64)[real]))
            tokens, sentences = tokens + int(np.sum(outputs["tokens"][real])), sentences + int(real.sum())
        nats = -total / max(tokens, 1)
        unigram = unigram_perplexity(data, self.split, self.examples)
        return {
            "perplexity": math.exp(min(nats, 80.0)),
            "bits": nats / math.log(2),
            "sentences": sentences,
            "unigram_perplexity": unigram,
        }

    def summary(self, scores: Mapping[str, Any]) -> str:
        """One line of what `score` gave."""
        return f"perplexity {scores['perplexity']:.2f} · unigram model {scores['unigram_perplexity']:.2f}"


def unigram_perplexity(data: Writable, split: str, examples: int | None) -> float:
    """Perplexity a piece of the training targets' piece frequencies (plus one each): what a trained model beats."""
    counts = np.ones(data.tokenizer.size) + data.target_counts()  # which a run may keep: its training text can be gone
    log_p = np.log(counts / counts.sum())
    return float(np.exp(-np.mean(log_p[data.target_tokens(split, examples)])))
