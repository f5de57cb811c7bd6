"""BLEU as sacreBLEU computes it (Post 2018), with the signature that says how, and the floor of copying the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import sacrebleu

from attention_research.signatures import Positive

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

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """Trivial baseline (a name of `floors.NAMES`) -> its scores on the split, by the names that `score` gives them.

        Each is fitted on the training split. What computes them is imported here: it is no part of scoring a trial.
        """
        del data
        return {}


class BleuEvaluation(Evaluation):
    """Translation, scored by sacreBLEU.

    With `near` the sources whose similarity to a training source is at least that (`floors.memory`) are also scored
    apart from the others: the first a translation memory can do as well.
    """

    def __init__(
        self,
        *,
        split: str = "test",
        batch_size: Positive = 64,
        examples: Positive | None = None,
        average: Positive = 1,
        near: float | None = None,
    ):
        super().__init__(split=split, batch_size=batch_size, examples=examples, average=average)
        self.near = near

    def score(self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> Scores:
        """`bleu` with its `signature`, and `copy_bleu`: that of the sources themselves."""
        bleu, signature = corpus_bleu(hypotheses, references)
        return {"bleu": bleu, "signature": signature, "copy_bleu": corpus_bleu(sources, references)[0]}

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """As `Evaluation.floors`: copying the source and a translation memory."""
        from attention_research.tasks.floors.written import translation_floors

        return translation_floors(self, data)

    def summary(self, scores: Mapping[str, Any]) -> str:
        """One line of what `score` gave."""
        return f"BLEU {scores['bleu']:.2f} ({scores['signature']}) · copying the source {scores['copy_bleu']:.2f}"

    def by_distance(
        self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str], data: Any, report: Any
    ) -> Scores:
        """With `near`: `near_bleu`, `far_bleu`, `near_sentences` and `far_sentences`. Nothing, and a line to `report`
        that says why, where the training text is not here."""
        from attention_research.tasks.floors.memory import by_distance, similarities

        found = None if self.near is None else similarities(data, sources, report)
        return {} if found is None else by_distance(found.similarity >= self.near, hypotheses, references)

    def distance_summary(self, scores: Mapping[str, Any]) -> str:
        """What follows `summary` where there is anything of `by_distance`."""
        said = [
            f"{name} {scores[f'{name}_bleu']:.2f} ({scores[f'{name}_sentences']:,} sentences)"
            for name in ("near", "far")
            if f"{name}_bleu" in scores
        ]
        return "".join(f" · {one}" for one in said)

    def sentence_statistics(
        self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]
    ) -> dict[str, Any]:
        """What `bleu` is a sum of, sentence by sentence (`tasks.sentence_statistics`)."""
        from attention_research.tasks.sentence_statistics import of_bleu

        return of_bleu(hypotheses, references, sources)
