"""The perplexity of target tokens, an evaluation without decoding, mainly for language models."""

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
    """exp of the mean negative log-likelihood per non-padding target token, including the end of the sentence."""

    needs = ("log_likelihood",)
    metrics = (PERPLEXITY, Metric("bits", "bits a token", "lower", digits=3))

    def outputs(self, model: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
        """{"log_likelihood" [B]: the sum over the non-padding tokens of a row, "tokens" [B]: their number}."""
        values, _ = model.log_likelihood(batch)
        summed = jnp.sum(values["log_likelihood"], axis=1, where=values["mask"])
        return {"log_likelihood": summed, "tokens": jnp.sum(values["mask"], axis=1)}

    def score(self, triples: Iterable[tuple[np.ndarray, Mapping[str, Any], Mapping[str, Any]]], data: Any) -> Scores:
        """`perplexity`, `bits` per token, the number of `sentences`, and `unigram_perplexity` as a floor."""
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
        """The scores in one line."""
        return f"perplexity {scores['perplexity']:.2f} · unigram model {scores['unigram_perplexity']:.2f}"


def unigram_perplexity(data: Writable, split: str, examples: int | None) -> float:
    """The perplexity per token of a unigram model with add-one smoothing, fitted on the training targets. It is a
    floor for trained models."""
    counts = np.ones(data.tokenizer.size) + data.target_counts()  # stored with a run, in case its text is not available
    log_p = np.log(counts / counts.sum())
    return float(np.exp(-np.mean(log_p[data.target_tokens(split, examples)])))
