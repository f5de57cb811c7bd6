"""Evaluates text-to-text models by the usual metrics of each task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attention_research.errors import ConfigError
from attention_research.tasks import glue_metrics
from attention_research.tasks.evaluation import BleuEvaluation, Scores, TextEvaluation, corpus_bleu
from attention_research.tasks.evaluation_protocol import ACCURACY, Floor, Metric
from attention_research.tasks.rouge import SIGNATURE, rouge

Texts = Sequence[str]


class TextToTextEvaluation(TextEvaluation):
    """Scores generated texts by `metrics`. The config sets the decoding, which is greedy in T5.

    Metrics for labels are "accuracy", "f1_macro" and "matthews", with the classes `labels` (default: those of the
    references), and "f1" of the label `positive`. Metrics for numbers are "pearson" and "spearman". Metrics for answers
    (SQuAD, ReCoRD, WebQ) are "exact_match" and "token_f1"; a source may occur once for each of its references. Metrics
    for longer texts are "rouge1", "rouge2", "rougeL" and "bleu". All are in percent (`glue_metrics`, `rouge`,
    sacreBLEU).

    Raises ConfigError for an empty list of metrics, for a repeated metric, and for "f1" without `positive`.
    """

    metrics: tuple[Metric, ...] = (
        *BleuEvaluation.metrics,
        ACCURACY,
        Metric("f1", "F1", "higher"),
        Metric("f1_macro", "macro-F1", "higher"),
        Metric("matthews", "Matthews correlation", "higher", bounds=(-100.0, 100.0)),
        Metric("pearson", "Pearson correlation", "higher", bounds=(-100.0, 100.0)),
        Metric("spearman", "Spearman correlation", "higher", bounds=(-100.0, 100.0)),
        Metric("exact_match", "exact match, %", "higher", floors=(Floor("nearest_source", "nearest source"),)),
        Metric("token_f1", "token F1", "higher"),
        Metric("rouge1", "ROUGE-1", "higher"),
        Metric("rouge2", "ROUGE-2", "higher"),
        Metric("rougeL", "ROUGE-L", "higher", floors=(Floor("lead", "first sentence"),)),
    )

    def __init__(
        self,
        *,
        metrics: tuple[
            Literal[
                "accuracy", "f1", "f1_macro", "matthews", "pearson", "spearman", "exact_match", "token_f1", "rouge1",
                "rouge2", "rougeL", "bleu",
            ],
            ...,
        ] = ("accuracy",),
        labels: tuple[str, ...] = (),
        positive: str | None = None,
        **inherited: Any,
    ):  # fmt: skip
        super().__init__(**inherited)
        if not metrics or len(set(metrics)) < len(metrics):
            raise ConfigError(f"evaluation.metrics: expected one or more different metrics; got {list(metrics)}")
        if "f1" in metrics and positive is None:
            raise ConfigError("evaluation.positive: the metric f1 needs the positive label")
        self.chosen, self.labels, self.positive = tuple(metrics), tuple(labels), positive
        self.metrics = tuple(one for one in type(self).metrics if one.name in ("perplexity", *metrics))

    def score(self, hypotheses: Texts, references: Texts, sources: Texts) -> Scores:
        """Each metric by its name, and their mean as `score`, as GLUE averages the two metrics of a task.

        For each metric, `majority_...` is the score of writing the most frequent reference for every source. BLEU and
        ROUGE have a signature, and BLEU also has `copy_bleu`, see `BleuEvaluation`.
        """
        most = min(Counter(references).items(), key=lambda found: (-found[1], found[0]))[0]  # ties: alphabetical order
        constant = [most] * len(references)
        ours: dict[str, float] = {
            metric: self._score(metric, hypotheses, references, sources) for metric in self.chosen
        }
        floor = {f"majority_{metric}": self._score(metric, constant, references, sources) for metric in self.chosen}
        scores: Scores = {**ours, "score": sum(ours.values()) / len(ours), **floor}
        if any(metric.startswith("rouge") for metric in self.chosen):
            scores["rouge_signature"] = SIGNATURE
        if "bleu" in self.chosen:
            scores["copy_bleu"], scores["signature"] = corpus_bleu(sources, references)
        return scores

    def _score(self, metric: str, hypotheses: Texts, references: Texts, sources: Texts) -> float:
        match metric:
            case "f1":
                assert self.positive is not None  # checked in the constructor
                return glue_metrics.f1(hypotheses, references, self.positive)
            case "f1_macro" | "matthews":
                return getattr(glue_metrics, metric)(hypotheses, references, self.labels)
            case "exact_match":
                return glue_metrics.record(hypotheses, references, sources)[0]
            case "token_f1":
                return glue_metrics.record(hypotheses, references, sources)[1]
            case "rouge1" | "rouge2" | "rougeL":
                return rouge(hypotheses, references, metric)
            case "bleu":
                return corpus_bleu(hypotheses, references)[0]
        return getattr(glue_metrics, metric)(hypotheses, references)

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """The floors, depending on the metrics."""
        from attention_research.tasks.floors.written import text_to_text_floors

        return text_to_text_floors(self, data)

    def summary(self, scores: Mapping[str, Any]) -> str:
        """The scores in one line."""
        each = (f"{metric} {scores[metric]:.2f} ({scores[f'majority_{metric}']:.2f})" for metric in self.chosen)
        return f"{' · '.join(each)} · in brackets: always writing the most frequent reference"
