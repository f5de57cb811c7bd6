"""`evaluate` and `generate`: a trained workdir's losses and scores, and what it writes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import jax
import numpy as np

from attention_research.data.given_files import GivenFiles
from attention_research.errors import ConfigError
from attention_research.models.sequences import source
from attention_research.tasks.perplexity import unigram_perplexity
from attention_research.training import keeping
from attention_research.training.averaging import averaged
from attention_research.training.checkpoints import Checkpoints
from attention_research.training.generating import continues, most_tokens, output_reader, translator
from attention_research.training.readings import readings
from attention_research.training.selection import select
from attention_research.training.trainer import Trainer, mean_losses, of_replica
from attention_research.training.workdir import load_config, write_json


class Trained:
    """A checkpoint of a workdir: its config, data, model, and a jitted translator.

    `checkpoint` is "last", "best" (the lowest validation loss) or a step. Without it the parameters are the mean of the
    newest `average` checkpoints; without either they are what `training.chosen_checkpoint` or `evaluation.average`
    says. `selection` says which were read.
    """

    def __init__(
        self,
        workdir: Path,
        report: Callable[[str], None] = lambda line: None,
        *,
        average: int | None = None,
        checkpoint: str | int | None = None,
    ):
        if checkpoint is not None and average not in (None, 1):
            raise ConfigError(
                f"--average={average}: --checkpoint={checkpoint} is one checkpoint, a mean needs several; "
                "leave one of the two out"
            )
        self.workdir, self.config = workdir, load_config(workdir)
        self.trainer = Trainer(self.config, alone=True)
        parts = self.trainer.parts
        self.settings = self.trainer.settings
        self.data: Any = self.trainer.data  # with what its kind gives beside `data.protocol.Data`
        self.evaluation, self.decoding = parts.evaluation(), parts.decoding()
        checkpoints = Checkpoints(workdir, self.settings, report)
        if checkpoint is None and average is None and self.settings.chosen_checkpoint == "best":
            checkpoint = "best"
        self.selection = select(checkpoints, checkpoint, self.evaluation.average if average is None else average)
        self.averaged, self.step = self.selection.steps, self.selection.steps[-1]
        keeping.ready(self.data, workdir, report)
        wanted = {name: self.trainer.execution.abstract[name] for name in ("parameters", "statistics")}
        wanted = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), wanted)
        restore = lambda step: checkpoints.restore(step, wanted, partial=("parameters", "statistics"))
        self.state = averaged(restore, self.averaged) if len(self.averaged) > 1 else restore(self.step)
        checkpoints.close()

        self.continues = continues(self.trainer)
        self._translate = jax.jit(translator(self.trainer, self.decoding))
        self._outputs = jax.jit(output_reader(self.trainer, self.evaluation))

    def most_tokens(self) -> int:
        """As `generating.most_tokens`."""
        return most_tokens(self.trainer)

    def model(self, replica: int = 0) -> tuple[Any, Any]:
        """(parameters, statistics) of one replica."""
        return of_replica(self.state, replica, self.trainer.replicas)

    def placed_model(self, replica: int = 0) -> tuple[Any, Any]:
        """The same, placed as `train` places it: the program of a loss is then the one that its validations compiled,
        and comes from the compilation cache."""
        shardings = {name: self.trainer.execution.shardings[name] for name in ("parameters", "statistics")}
        state = jax.device_put({name: self.state[name] for name in shardings}, shardings)
        return of_replica(state, replica, self.trainer.replicas)

    def outputs(
        self, model: tuple[Any, Any], batches: Iterator[tuple[np.ndarray, dict]]
    ) -> Iterator[tuple[np.ndarray, dict, dict]]:
        """(ids, batch, the model's outputs on it): what an evaluation that decodes nothing scores."""
        for ids, batch in batches:
            yield ids, batch, jax.device_get(self._outputs(model, batch))

    def translations(self, model: tuple[Any, Any], batches: Iterator[tuple[np.ndarray, dict]]) -> dict[int, str]:
        """Example id -> the best hypothesis as text."""
        texts: dict[int, str] = {}
        for ids, batch in batches:
            best = np.asarray(self._translate(model, source(batch)).tokens)[:, 0]
            texts.update(zip(ids.tolist(), self.data.tokenizer.decode(best.tolist()), strict=True))
        texts.pop(-1, None)
        return texts

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """Sentences -> translations, by the first replica; each is cut at the model's length."""
        return self.data.written([target for _, target in self.hypotheses(sentences)], sentences)

    def captions(self, images: np.ndarray) -> list[list[int]]:
        """Pictures [B Y X C], uint8 -> the tokens of the best hypothesis of each, the end of sentence included."""
        return self._best({"image": jax.numpy.asarray(images)})

    def _best(self, source: dict[str, Any]) -> list[list[int]]:
        """The tokens of the best hypothesis of each row, the end of sentence included."""
        decoded = self._translate(self.model(), source)
        best, lengths = np.asarray(decoded.tokens)[:, 0], np.asarray(decoded.lengths)[:, 0]
        return [tokens[:length].tolist() for tokens, length in zip(best, lengths, strict=True)]

    def hypotheses(self, sentences: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """Sentences -> (source tokens as the model read them, tokens of the best hypothesis), EOS included in both."""
        encoded = [reading.tokens for reading in readings(self, sentences)]
        return list(zip(encoded, self.decoded(encoded), strict=True))

    def decoded(self, encoded: Sequence[Sequence[int]]) -> list[list[int]]:
        """What the model reads, as `readings` gives it -> the tokens of the best hypothesis, EOS included."""
        targets: list[list[int]] = []
        length, size = self.config.resolved["data"]["max_length"], 16
        for start in range(0, len(encoded), size):
            tokens = np.zeros((min(size, len(encoded)), length), np.int32)
            rows = encoded[start : start + size]
            for row, ids in enumerate(rows):
                tokens[row, : len(ids)] = ids
            targets += self._best({"tokens": tokens})[: len(rows)]
        return targets


def evaluate(
    workdir: Path,
    report: Callable[[str], None] = lambda line: None,
    *,
    average: int | None = None,
    checkpoint: str | int | None = None,
    files: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Losses and scores on the evaluation split of the checkpoint, or the mean, that `Trained` takes.

    `files` are the source and the target file of other pairs to evaluate on; nothing is written then. Otherwise writes
    evaluation.json and returns it: "checkpoint" is how it was chosen ("last", "best", "step", "mean"), "step" it
    or the newest of the mean, "averaged" all of them.

    With replicas, the figures of each stand under "replicas" and the document's own are those of the first.
    """
    started = time.perf_counter()
    trained = Trained(workdir, report, average=average, checkpoint=checkpoint)
    if files is not None:
        trained.data = GivenFiles(trained.data, *files, workdir)
    results = [_evaluate_one(trained, replica, report) for replica in range(trained.trainer.replicas)]
    document = {**results[0], "step": trained.step, "split": trained.evaluation.split}
    document.update(checkpoint=trained.selection.name, averaged=trained.averaged)
    if len(results) > 1:
        document["replicas"] = [{**result, "replica": replica} for replica, result in enumerate(results)]
    document["seconds"] = time.perf_counter() - started
    if files is not None:
        return {**document, "split": trained.data.name}
    write_json(workdir / "evaluation.json", document)
    return document


def _evaluate_one(trained: Trained, replica: int, report: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    evaluation, data, model = trained.evaluation, trained.data, trained.model(replica)
    _check_model(trained)

    def batches() -> Iterator[tuple[np.ndarray, dict]]:
        return data.evaluation_batches(evaluation.split, evaluation.batch_size, examples=evaluation.examples)

    losses = mean_losses(trained.trainer.evaluation_step(replica), trained.placed_model(replica), batches())
    if hasattr(evaluation, "outputs"):
        scores = evaluation.score(trained.outputs(model, batches()), data)
        return {**scores, "summary": evaluation.summary(scores), **losses, "seed": trained.trainer.seeds[replica]}
    sources, references = data.text(evaluation.split)
    texts = trained.translations(model, batches())
    ids = sorted(texts)
    references, sources = [references[i] for i in ids], [sources[i] for i in ids]
    hypotheses = [texts[i] for i in ids]
    scores = evaluation.score(hypotheses, references, sources)
    summary = evaluation.summary(scores)
    if hasattr(evaluation, "by_distance"):
        scores |= evaluation.by_distance(hypotheses, references, sources, data, report)
        summary += evaluation.distance_summary(scores)
    if hasattr(evaluation, "sentence_statistics"):
        scores["sentence_statistics"] = evaluation.sentence_statistics(hypotheses, references, sources)
    return {
        **scores,
        "summary": summary,
        "loss": losses["loss"],
        "negative_log_likelihood": losses["negative_log_likelihood"],
        "perplexity": math.exp(min(losses["negative_log_likelihood"], 80.0)),
        "unigram_perplexity": unigram_perplexity(data, evaluation.split, evaluation.examples),
        "tokens": losses["tokens"],
        "sentences": len(ids),
        "seed": trained.trainer.seeds[replica],
        "samples": [
            {"source": s, "reference": r, "translation": texts[i]}
            for i, s, r in islice(zip(ids, sources, references, strict=True), 5)
        ],
    }


def _check_model(trained: Trained) -> None:
    """Raises ConfigError where the model lacks a method that the evaluation calls."""
    model, needs = trained.trainer.parts.model.target, getattr(trained.evaluation, "needs", ())
    absent = [name for name in needs if not hasattr(model, name)]
    if absent:
        scored, kind = (trained.config.resolved[section]["kind"] for section in ("evaluation", "model"))
        raise ConfigError(
            f"evaluation.kind={scored}: needs a model with {', '.join(needs)}, but {kind} has no "
            f"{' and no '.join(absent)}; train it with an evaluation that fits, such as perplexity of a language model"
        )
