"""Scores a model by the evaluations of its config, during training and afterwards.

The section `evaluation` of a config gives the scores of a run. `evaluations` has further evaluations by name. The
command `evaluate` computes all of them. During training, each validation (`training.eval_every`) also computes the
further evaluations, each on its own split and number of `examples`. Evaluations of the split "test" are left out, so
that no checkpoint is chosen on test examples. Metrics are logged as "NAME.METRIC"; those of the validation split are in
the line of the validation loss:

    {"step": 200, "split": "validation", "loss": 3.1, ..., "bleu.bleu": 12.3, "copied.word_error_rate": 41.0}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import jax
import numpy as np

from attention_research.config.errors import offer
from attention_research.data.text_to_text import without_prefix
from attention_research.errors import ConfigError
from attention_research.models.sequences import source
from attention_research.parallel.replica_settings import scope
from attention_research.tasks.evaluation_protocol import ReadsOutputs, ScoresTexts
from attention_research.training.generating import output_reader, translator
from attention_research.training.named_arrays import NamedArrays
from attention_research.training.selection import criterion_of
from attention_research.training.trainer import Trainer

Model = tuple[Any, Any]
Batches = Iterator[tuple[np.ndarray, dict]]
Evaluation = ScoresTexts | ReadsOutputs
Written = Callable[[Evaluation, Sequence[str]], dict[int, str]]
TEST = "test"


def batches_of(evaluation: Evaluation, data: Any) -> Batches:
    """(ids, batch) of the examples that an evaluation scores; the id -1 marks a row that only fills the batch."""
    return data.evaluation_batches(evaluation.split, evaluation.batch_size, examples=evaluation.examples)


def check_not_empty(data: Any, split: str, key: str = "data") -> None:
    """Raises ConfigError, naming the setting `key`, if no example of a split can be scored."""
    if next(data.evaluation_batches(split, 1, examples=1), None) is None:
        raise ConfigError(f"config.{key}: the {split} split of {data.name} is empty")


def check_classes(trainer: Trainer, data: Any) -> None:
    """Raises ConfigError if a classifier has another number of classes than its prepared data."""
    config = trainer.config.resolved
    count, classes = config["model"].get("num_classes"), getattr(data, "classes", ())
    if config["task"]["kind"] == "classification" and count is not None and classes and count != len(classes):
        raise ConfigError(
            f"config.model.num_classes: expected {len(classes)}, the number of classes of {data.name}; got {count}"
        )


def texts_of(
    translate: Callable[[Any], Any], data: Any, batches: Batches, sources: Sequence[str] | None = None
) -> dict[int, str]:
    """Example id -> the best hypothesis as text; `translate` takes the source of a batch.

    With `sources`, the texts by id, copied words that have no token are written as the source has them.
    """
    texts: dict[int, str] = {}
    for ids, batch in batches:
        best = np.asarray(translate(source(batch)).tokens)[:, 0].tolist()
        read = None if sources is None else [sources[id] if id >= 0 else "" for id in ids.tolist()]
        written = data.tokenizer.decode(best) if read is None else data.written(best, read)
        texts.update(zip(ids.tolist(), written, strict=True))
    texts.pop(-1, None)
    return texts


def written_once(data: Any, texts: Callable[[Batches, Sequence[str]], dict[int, str]]) -> Written:
    """A function from an evaluation and the sources of its split to the texts that it scores. Evaluations of the same
    batches share the texts, since decoding is slow."""
    found: dict[tuple, dict[int, str]] = {}

    def written(one: Evaluation, sources: Sequence[str]) -> dict[int, str]:
        key = one.split, one.batch_size, one.examples
        if key not in found:
            found[key] = texts(batches_of(one, data), sources)
        return found[key]

    return written


def outputs_of(read: Callable[[dict], Any], batches: Batches) -> Iterator[tuple[np.ndarray, dict, dict]]:
    """(ids, batch, outputs of the model) of each batch."""
    for ids, batch in batches:
        yield ids, NamedArrays(batch), jax.device_get(read(batch))


def scores_of(
    evaluation: Evaluation,
    data: Any,
    written: Written,
    outputs: Callable[[Evaluation], Iterator[tuple[np.ndarray, dict, dict]]],
    report: Callable[[str], None],
) -> dict[str, Any]:
    """The scores of one evaluation and their "summary". For texts also "sentences" (their number) and "samples".

    `written` and `outputs` return the results of `texts_of` and `outputs_of` for an evaluation.
    """
    if isinstance(evaluation, ReadsOutputs):
        scores: dict[str, Any] = dict(evaluation.score(outputs(evaluation), data))
        return {**scores, "summary": evaluation.summary(scores)}
    sources, references = data.text(evaluation.split)
    texts = written(evaluation, sources)
    ids = sorted(texts)
    hypotheses, references, sources = ([side[i] for i in ids] for side in (texts, references, sources))
    bare = without_prefix(data, sources)
    scores = dict(evaluation.score(hypotheses, references, bare))
    summary = evaluation.summary(scores)
    scores |= evaluation.by_distance(hypotheses, references, bare, data, report)
    summary += evaluation.distance_summary(scores)
    near = scores.pop("near_sources", None)
    if statistics := evaluation.sentence_statistics(hypotheses, references, bare):
        from attention_research.tasks.sentence_statistics import with_near

        scores["sentence_statistics"] = statistics if near is None else with_near(statistics, near)
    sides = zip(sources, references, hypotheses, strict=True)
    samples = [{"source": s, "reference": r, "translation": t} for s, r, t in islice(sides, 5)]
    return {**scores, "summary": summary, "sentences": len(ids), "samples": samples}


def check_model(trainer: Trainer, path: str, evaluation: Evaluation, kind: str) -> None:
    """Raises ConfigError if the model lacks a method that the evaluation calls."""
    absent = [name for name in evaluation.needs if not hasattr(trainer.parts.model.target, name)]
    if absent:
        model = trainer.config.resolved["model"]["kind"]
        raise ConfigError(
            f"{path}.kind={kind}: needs a model with {', '.join(evaluation.needs)}, but {model} has no "
            f"{' and no '.join(absent)}; train it with an evaluation that fits, such as perplexity of a language model"
        )


class FurtherEvaluations:
    """The further evaluations of a run in training. Each program is compiled once.

    `evaluations` are those that training computes; `criterion` ranks the checkpoints to keep. Raises ConfigError if an
    evaluation does not fit the model.
    """

    def __init__(self, trainer: Trainer):
        self.trainer = trainer
        sections = trainer.config.resolved["evaluations"]
        made: dict[str, Evaluation] = {name: make() for name, make in trainer.parts.evaluations.items()}
        for name, evaluation in made.items():
            check_model(trainer, f"evaluations.{name}", evaluation, sections[name]["kind"])
        self.criterion = criterion_of(trainer.config)
        self.evaluations = {name: one for name, one in made.items() if one.split != TEST}
        self._translate = self._jitted(translator(trainer, trainer.parts.decoding()))
        self._read = {
            name: self._jitted(output_reader(trainer, one))
            for name, one in self.evaluations.items()
            if isinstance(one, ReadsOutputs)
        }

    def _jitted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(model: Model, batch: Mapping[str, Any], mine: Mapping[str, Any]) -> Any:
            with scope(mine):
                return function(model, batch)

        return self.trainer.execution.jitted(run)  # each host computes all scores

    def numbers(self, model: Model, replica: int = 0) -> dict[str, dict[str, float]]:
        """Split -> "NAME.METRIC" -> number, for the model of one replica, without dropout."""
        found: dict[str, dict[str, float]] = {}
        data, mine = self.trainer.data, {path: x[replica] for path, x in self.trainer.varied.items()}
        translate = lambda given: self._translate(model, given, mine)
        written = written_once(data, lambda batches, sources: texts_of(translate, data, batches, sources))
        for name, evaluation in self.evaluations.items():
            read = lambda batch, name=name: self._read[name](model, batch, mine)
            outputs = lambda one, read=read: outputs_of(read, one.batches(data))
            scores = scores_of(evaluation, data, written, outputs, lambda line: None)
            numbers = {
                f"{name}.{one.name}": float(scores[one.name]) for one in evaluation.metrics if one.name in scores
            }
            found.setdefault(evaluation.split, {}).update(numbers)
        return found

    def check_stop_by(self) -> None:
        """Raises ConfigError if `training.stop_at` is set and no validation logs the number `training.stop_by`."""
        settings = self.trainer.settings
        if settings.stop_at is None:
            return
        start = jax.eval_shape(self.trainer.step_and_start[1], 0)
        batch = self.trainer.largest_evaluation_batch(settings.batch_size)
        logged = [*jax.eval_shape(self.trainer.losses, (start["parameters"], start["statistics"]), batch)]
        for name, evaluation in self.evaluations.items():
            if evaluation.split == "validation":
                logged += [f"{name}.{metric.name}" for metric in evaluation.metrics]
        if settings.stop_by not in logged:
            raise no_such_number(settings.stop_by, logged)


def no_such_number(name: str, logged: Iterable[str]) -> ConfigError:
    """The error for a `training.stop_by` that is not among the numbers that a validation logs."""
    return ConfigError(f"config.training.stop_by: a validation has no {name}; {offer(name, logged)}")
