"""Text to text, scored: what the model writes against the reference, by the metrics that its task is known for."""

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
    """`metrics` of generated texts; the decoding is the config's own, in T5 greedy.

    Of labels: "accuracy", "f1_macro" and "matthews", whose classes are `labels` or, none given, those of the
    references, and "f1" of the label `positive`. Of numbers: "pearson", "spearman". Of answers (SQuAD, ReCoRD, WebQ),
    where a source may stand once for each of its references: "exact_match", "token_f1". Of longer texts: "rouge1",
    "rouge2", "rougeL", "bleu". All are in percent (`glue_metrics`, `rouge`, sacreBLEU).

    Raises ConfigError for no metric, one that stands twice, and "f1" without `positive`.
    """

    metrics: tuple[Metric, ...] = (
        *BleuEvaluation.metrics,
        ACCURACY,
        Metric("f1", "F1", "higher"),
        Metric("f1_macro", "macro-F1", "higher"),
        Metric("matthews", "Matthews correlation", "higher"),
        Metric("pearson", "Pearson correlation", "higher"),
        Metric("spearman", "Spearman correlation", "higher"),
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
            raise ConfigError(f"evaluation.metrics: expected at least one, each once; got {list(metrics)}")
        if "f1" in metrics and positive is None:
            raise ConfigError("evaluation.positive: f1 is of one label; say which")
        self.chosen, self.labels, self.positive = tuple(metrics), tuple(labels), positive
        self.metrics = tuple(one for one in type(self).metrics if one.name in ("perplexity", *metrics))

    def score(self, hypotheses: Texts, references: Texts, sources: Texts) -> Scores:
        """Each metric by its name, and their mean as `score`: a task of GLUE with two metrics counts with their mean.

        `majority_...` beside each is what writing the most frequent reference for every source would score; with BLEU
        and ROUGE come their signatures, with BLEU `copy_bleu` as in `BleuEvaluation`.
        """
        most = min(Counter(references).items(), key=lambda found: (-found[1], found[0]))[0]  # of equals the first
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
                assert self.positive is not None  # as asked for above
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
        """As `Evaluation.floors`: by the metrics."""
        from attention_research.tasks.floors.written import text_to_text_floors

        return text_to_text_floors(self, data)

    def summary(self, scores: Mapping[str, Any]) -> str:
        """One line of what `score` gave."""
        each = (f"{metric} {scores[metric]:.2f} ({scores[f'majority_{metric}']:.2f})" for metric in self.chosen)
        return f"{' · '.join(each)} · in brackets: always writing the most frequent reference"
