"""Loads a trained model from a workdir, computes its losses and scores (`evaluate`) and generates text."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from attention_research.config.overrides import Override
from attention_research.config.record import Config, resolve
from attention_research.data.given_files import SPLIT, GivenFiles
from attention_research.errors import ConfigError
from attention_research.tasks.evaluation_protocol import ReadsOutputs
from attention_research.tasks.perplexity import unigram_perplexity
from attention_research.training import keeping
from attention_research.training.checkpoints import Checkpoints
from attention_research.training.generating import continues, most_tokens, output_reader, translator
from attention_research.training.readings import readings
from attention_research.training.scoring import (
    batches_of,
    check_model,
    check_not_empty,
    outputs_of,
    scores_of,
    texts_of,
    written_once,
)
from attention_research.training.selection import averaged, criterion_of, select
from attention_research.training.trainer import Trainer, mean_losses, of_replica
from attention_research.training.workdir import check_writable, load_config, write_json


def with_decoding(config: Config, overrides: Sequence[Override]) -> Config:
    """The config with the overrides of its decoding. Another kind of decoding begins with its own defaults."""
    given, kind = config.resolved, config.resolved["decoding"]["kind"]
    if any(path in ("decoding", "decoding.kind") and value != kind for path, value in overrides):
        given = {name: section for name, section in given.items() if name != "decoding"}
    return resolve(given, overrides) if overrides else config


class Trained:
    """A trained model of a workdir: its config, data, parameters, and a jitted decoding function.

    `checkpoint` is "last", "best" (the lowest validation loss) or a step. If `average` is given instead, the parameters
    are the mean of the newest `average` checkpoints. If neither is given, the settings `training.chosen_checkpoint` and
    `evaluation.average` decide. The attribute `selection` names the checkpoints that were read. `overrides` change
    the run's config, for example its decoding.

    Translations by the best checkpoint of a run:

        trained = Trained(Path("runs/first"), checkpoint="best")
        trained.translate(["le chat noir", "les chats noirs"])
    """

    def __init__(
        self,
        workdir: Path,
        report: Callable[[str], None] = lambda line: None,
        *,
        average: int | None = None,
        checkpoint: str | int | None = None,
        overrides: Iterable[Override] = (),
    ):
        if checkpoint is not None and average not in (None, 1):
            raise ConfigError(
                f"--average={average} needs several checkpoints, but --checkpoint={checkpoint} selects one; give only "
                "one of the two options"
            )
        self.workdir, self.config = workdir, with_decoding(load_config(workdir), list(overrides))
        self.trainer = Trainer(self.config, alone=True)
        parts = self.trainer.parts
        self.settings = self.trainer.settings
        self.data: Any = self.trainer.data  # its kind may have more methods than `data.protocol.Data`
        self.evaluation, self.decoding = parts.evaluation(), parts.decoding()
        self.further = {name: make() for name, make in parts.evaluations.items()}
        checkpoints = Checkpoints(workdir, self.settings, report, criterion_of(self.config))
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
        self._reader = cache(lambda evaluation: jax.jit(output_reader(self.trainer, evaluation)))

    def most_tokens(self) -> int:
        """The maximum output length, see `generating.most_tokens`."""
        return most_tokens(self.trainer)

    def model(self, replica: int = 0) -> tuple[Any, Any]:
        """(parameters, statistics) of one replica."""
        return of_replica(self.state, replica, self.trainer.replicas)

    def placed_model(self, replica: int = 0) -> tuple[Any, Any]:
        """(parameters, statistics) of one replica, with the sharding that `train` uses.

        The program of a loss is then the one that validation has compiled, and is found in the compilation cache.
        """
        shardings = {name: self.trainer.execution.shardings[name] for name in ("parameters", "statistics")}
        state = jax.device_put({name: self.state[name] for name in shardings}, shardings)
        return of_replica(state, replica, self.trainer.replicas)

    def outputs(
        self, model: tuple[Any, Any], batches: Iterator[tuple[np.ndarray, dict]], evaluation: Any = None
    ) -> Iterator[tuple[np.ndarray, dict, dict]]:
        """(ids, batch, outputs of the model) of each batch, for an evaluation that does not decode (default: the main
        one)."""
        read = self._reader(evaluation or self.evaluation)
        return outputs_of(lambda batch: read(model, batch), batches)

    def translations(
        self, model: tuple[Any, Any], batches: Iterator[tuple[np.ndarray, dict]], sources: Sequence[str] | None = None
    ) -> dict[int, str]:
        """Example id -> the best hypothesis as text (`texts_of`)."""
        return texts_of(lambda given: self._translate(model, given), self.data, batches, sources)

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """Sentences -> translations by the first replica. Each sentence is cut at the maximum length of the model."""
        return self.data.written([target for _, target in self.hypotheses(sentences)], sentences)

    def captions(self, images: np.ndarray) -> list[list[int]]:
        """Images [B Y X C], uint8 -> the tokens of the best hypothesis of each, including the end of sentence."""
        return self._best({"image": jax.numpy.asarray(images)})

    def _best(self, source: dict[str, Any]) -> list[list[int]]:
        """The tokens of the best hypothesis of each row, including the end of sentence."""
        decoded = self._translate(self.model(), source)
        best, lengths = np.asarray(decoded.tokens)[:, 0], np.asarray(decoded.lengths)[:, 0]
        return [tokens[:length].tolist() for tokens, length in zip(best, lengths, strict=True)]

    def hypotheses(self, sentences: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """Sentences -> (source tokens as the model reads them, tokens of the best hypothesis), both including EOS."""
        encoded = [reading.tokens for reading in readings(self, sentences)]
        return list(zip(encoded, self.decoded(encoded), strict=True))

    def decoded(self, encoded: Sequence[Sequence[int]]) -> list[list[int]]:
        """Source tokens, as `readings` returns them -> the tokens of the best hypothesis, including EOS."""
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
    """Computes losses and scores on the evaluation split, writes them to evaluation.json and returns them.

    `average` and `checkpoint` select the parameters, see `Trained`. `files` are a source and a target file with other
    sentence pairs, which are all scored; evaluation.json is not written then. In the result, "checkpoint" says how the
    checkpoint was chosen ("last", "best", "step", "mean"), "step" is its step (of a mean: the newest), and "averaged"
    lists all steps that were read.

    The scores of further evaluations are under "evaluations", by name. With replicas, "replicas" lists the figures of
    each replica, and the figures at the top level are those of the first.
    """
    started = time.perf_counter()
    if files is None and workdir.is_dir():
        check_writable(workdir / "evaluation.json")
    trained = Trained(workdir, report, average=average, checkpoint=checkpoint)
    if files is not None:
        trained.data, trained.evaluation.split = GivenFiles(trained.data, *files, workdir), SPLIT
        for line in keeping.remarks({"left_out": trained.data.omitted(), "cut": trained.data.shortened()}):
            report(f"data  {line}")
    results = [_evaluate_one(trained, replica, report) for replica in range(trained.trainer.replicas)]
    document = {**results[0], "step": trained.step, "split": trained.evaluation.split}
    document.update(checkpoint=trained.selection.name, averaged=trained.averaged)
    if trained.selection.name == "best" and trained.settings.best_by != "loss":
        document["best_by"] = trained.settings.best_by
    if len(results) > 1:
        document["replicas"] = [{**result, "replica": replica} for replica, result in enumerate(results)]
    document["seconds"] = time.perf_counter() - started
    if files is not None:
        return {**document, "split": trained.data.name}
    write_json(workdir / "evaluation.json", document)
    return document


def _evaluate_one(trained: Trained, replica: int, report: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    trainer, evaluation, data, model = trained.trainer, trained.evaluation, trained.data, trained.model(replica)
    further = {} if isinstance(data, GivenFiles) else trained.further
    kinds = {name: section["kind"] for name, section in trained.config.resolved["evaluations"].items()}
    check_model(trainer, "evaluation", evaluation, trained.config.resolved["evaluation"]["kind"])
    check_not_empty(data, evaluation.split, "evaluation.split")
    for name, one in further.items():
        check_model(trainer, f"evaluations.{name}", one, kinds[name])
        check_not_empty(data, one.split, f"evaluations.{name}.split")
    read = lambda one: trained.outputs(model, one.batches(data), one)
    losses = mean_losses(trainer.evaluation_step(replica), trained.placed_model(replica), batches_of(evaluation, data))
    written = written_once(data, lambda batches, sources: trained.translations(model, batches, sources))
    scores = scores_of(evaluation, data, written, read, report)
    if isinstance(evaluation, ReadsOutputs):
        document = {**scores, **losses, "seed": trainer.seeds[replica]}
    else:
        sentences, samples = scores.pop("sentences"), scores.pop("samples")
        document = {
            **scores,
            "loss": losses["loss"],
            "negative_log_likelihood": losses["negative_log_likelihood"],
            "perplexity": math.exp(min(losses["negative_log_likelihood"], 80.0)),
            "unigram_perplexity": unigram_perplexity(data, evaluation.split, evaluation.examples),
            "tokens": losses["tokens"],
            "sentences": sentences,
            "seed": trainer.seeds[replica],
            "samples": samples,
        }
    if further:
        document["evaluations"] = {
            name: {**scores_of(one, data, written, read, report), "split": one.split} for name, one in further.items()
        }
    return document
