"""BLEU as sacreBLEU computes it (Post 2018), with the signature that says how, and the floor of copying the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import sacrebleu

from attention_research.signatures import Positive
from attention_research.tasks.evaluation_protocol import PERPLEXITY, Floor, Metric, Scores


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """(score, sacreBLEU's signature); one reference a sentence, detokenised text."""
    metric = sacrebleu.BLEU()
    score = metric.corpus_score(list(hypotheses), [list(references)]).score
    return score, str(metric.get_signature())


class Evaluation:
    """Scores a split: `tasks.evaluation_protocol` is the contract, this the settings and defaults that kinds share."""

    needs: ClassVar[tuple[str, ...]] = ()
    metrics: tuple[Metric, ...] = ()

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
        """None but those of the data (`tasks.floors`)."""
        del data
        return {}


class TextEvaluation(Evaluation):
    """One that scores what the model writes; nothing by distance, and no statistics."""

    needs = ("encode", "start", "step")
    metrics: tuple[Metric, ...] = (PERPLEXITY,)

    def by_distance(
        self, hypotheses: Sequence[str], references: Sequence[Any], sources: Sequence[Any], data: Any, report: Any
    ) -> Scores:
        """Nothing."""
        del hypotheses, references, sources, data, report
        return {}

    def distance_summary(self, scores: Mapping[str, Any]) -> str:
        """Nothing."""
        del scores
        return ""

    def sentence_statistics(
        self, hypotheses: Sequence[str], references: Sequence[Any], sources: Sequence[Any]
    ) -> dict[str, Any]:
        """None."""
        del hypotheses, references, sources
        return {}


class BleuEvaluation(TextEvaluation):
    """Translation, scored by sacreBLEU.

    With `near` the sources whose similarity to a training source is at least that (`floors.memory`) are also scored
    apart from the others: the first a translation memory can do as well.
    """

    metrics: tuple[Metric, ...] = (
        PERPLEXITY,
        Metric(
            "bleu",
            "BLEU",
            "higher",
            floors=(
                Floor("copy", "copying the source", "copy_bleu", "copying the source", "copying's"),
                Floor("memory", "translation memory"),
                Floor("memory_else_copy", "translation memory, else copying"),
            ),
        ),
    )

    def __init__(self, *, near: float | None = None, **inherited: Any):
        super().__init__(**inherited)
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
