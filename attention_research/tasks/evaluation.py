"""The base classes of evaluations, and BLEU by sacreBLEU (Post 2018) with its signature and floors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import sacrebleu

from attention_research.signatures import Positive
from attention_research.tasks.evaluation_protocol import PERPLEXITY, Floor, Metric, Scores


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """(score, signature of sacreBLEU) of detokenised texts, with one reference per sentence."""
    metric = sacrebleu.BLEU()
    score = metric.corpus_score(list(hypotheses), [list(references)]).score
    return score, str(metric.get_signature())


class Evaluation:
    """The base class of evaluations, with common settings and defaults. `tasks.evaluation_protocol` is the contract."""

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

    def batches(self, data: Any) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """By default, the batches of the examples that are scored."""
        return data.evaluation_batches(self.split, self.batch_size, examples=self.examples)

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """{}: by default, the only floors are those of the data (`tasks.floors`)."""
        del data
        return {}


class TextEvaluation(Evaluation):
    """The base class of evaluations that score generated text. By default, there are no scores by distance and no
    sentence statistics."""

    needs = ("encode", "start", "step")
    metrics: tuple[Metric, ...] = (PERPLEXITY,)

    def by_distance(
        self, hypotheses: Sequence[str], references: Sequence[Any], sources: Sequence[Any], data: Any, report: Any
    ) -> dict[str, Any]:
        """{} by default."""
        del hypotheses, references, sources, data, report
        return {}

    def distance_summary(self, scores: Mapping[str, Any]) -> str:
        """The empty string by default."""
        del scores
        return ""

    def sentence_statistics(
        self, hypotheses: Sequence[str], references: Sequence[Any], sources: Sequence[Any]
    ) -> dict[str, Any]:
        """{} by default."""
        del hypotheses, references, sources
        return {}


class BleuEvaluation(TextEvaluation):
    """Scores translations by sacreBLEU.

    With `near`, sources whose similarity to a training source is at least `near` (`floors.memory`) and all other
    sources are also scored separately. Near sources can be solved by a translation memory.
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
        """`bleu` with its `signature`, and `copy_bleu`, the BLEU of copying the sources."""
        bleu, signature = corpus_bleu(hypotheses, references)
        return {"bleu": bleu, "signature": signature, "copy_bleu": corpus_bleu(sources, references)[0]}

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """The floors: copying the source, and a translation memory."""
        from attention_research.tasks.floors.written import translation_floors

        return translation_floors(self, data)

    def summary(self, scores: Mapping[str, Any]) -> str:
        """The scores in one line."""
        return f"BLEU {scores['bleu']:.2f} ({scores['signature']}) · copying the source {scores['copy_bleu']:.2f}"

    def by_distance(
        self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str], data: Any, report: Any
    ) -> dict[str, Any]:
        """`near_bleu`, `far_bleu`, `near_sentences` and `far_sentences`, or {} without `near`.

        `near_sources` has a Boolean for each source, for the statistics of each sentence (`training.scoring`). If the
        training text is not available, returns {} and reports the reason.
        """
        from attention_research.tasks.floors.memory import by_distance, similarities

        found = None if self.near is None else similarities(data, sources, report)
        if found is None:
            return {}
        near = found.similarity >= self.near
        return {**by_distance(near, hypotheses, references), "near_sources": near}

    def distance_summary(self, scores: Mapping[str, Any]) -> str:
        """The scores of `by_distance`, if there are any, to be appended to `summary`."""
        said = [
            f"{name} {scores[f'{name}_bleu']:.2f} ({scores[f'{name}_sentences']:,} sentences)"
            for name in ("near", "far")
            if f"{name}_bleu" in scores
        ]
        return "".join(f" · {one}" for one in said)

    def sentence_statistics(
        self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]
    ) -> dict[str, Any]:
        """The statistics of each sentence, whose sums give `bleu` (`tasks.sentence_statistics`)."""
        from attention_research.tasks.sentence_statistics import of_bleu

        return of_bleu(hypotheses, references, sources)
