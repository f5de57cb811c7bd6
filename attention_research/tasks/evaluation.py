"""BLEU as sacreBLEU computes it (Post 2018), with the signature that says how, and the floor of copying the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import sacrebleu

from attention_research.registry import Positive

#: What a metric is called -> its number or text, of one split.
Scores = dict[str, float | str]


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """(score, sacreBLEU's signature); one reference a sentence, detokenised text."""
    metric = sacrebleu.BLEU()
    score = metric.corpus_score(list(hypotheses), [list(references)]).score
    return score, str(metric.get_signature())


class Evaluation:
    """Scores a split. `examples` bounds how many of its sentences (None: all of them); the model is the mean of the
    newest `average` checkpoints (`training.averaging`).

    One that decodes has `score(hypotheses, references, sources)`. One that looks at the model's outputs instead has
    `outputs(model, batch)`, a pure function giving a dictionary of arrays, and `score(triples, data)` over (ids, batch,
    outputs), where an id of -1 marks a row that only fills the batch. Both have `summary(scores)`.
    `needs` are the methods that the model must have.
    """

    needs: ClassVar[tuple[str, ...]] = ("encode", "start", "step")

    def __init__(
        self,
        *,
        split: str = "test",
        batch_size: Positive = 64,
        examples: Positive | None = None,
        average: Positive = 1,
    ):
        self.split, self.batch_size, self.examples, self.average = split, batch_size, examples, average


class BleuEvaluation(Evaluation):
    """Translation, scored by sacreBLEU."""

    def score(self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> Scores:
        """`bleu` with its `signature`, and `copy_bleu`: that of the sources themselves."""
        bleu, signature = corpus_bleu(hypotheses, references)
        return {"bleu": bleu, "signature": signature, "copy_bleu": corpus_bleu(sources, references)[0]}

    def summary(self, scores: Mapping[str, Any]) -> str:
        """One line of what `score` gave."""
        return f"BLEU {scores['bleu']:.2f} ({scores['signature']}) · copying the source {scores['copy_bleu']:.2f}"
