"""Reads a run's folder from its files, also while a process works there."""

from __future__ import annotations

import dataclasses
import fcntl
import functools
import json
import math
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_research.config import Config, ConfigError
from attention_research.config.errors import nearest
from attention_research.config.record import flat
from attention_research.training.metrics_log import read_metrics
from attention_research.workdirs import replicas
from attention_research.workdirs.replicas import is_number

#: The final training loss is the mean of this many last logged steps, as in the tables of studies.
LAST = 10


def is_run(folder: Path) -> bool:
    """Whether the folder holds the config of a run, trained or not."""
    return os.path.isfile(folder / "config.json")  # Path.is_file raises if the folder is not readable


def is_study(folder: Path) -> bool:
    """Whether the folder is that of a study or a sweep. A study that was only drawn from its record has no trials."""
    return os.path.isdir(folder / "trials") or "study" in read_json(folder / "summary.json")


def no_run(folder: Path) -> str:
    """Why a folder without a readable config.json is not that of a run, in words."""
    try:
        os.stat(folder / "config.json")
    except PermissionError as error:
        return f"config.json cannot be read ({error.strerror})"
    except OSError:
        pass
    if not folder.is_dir():
        return f"no run there (no such folder){nearest_folder(folder)}"
    if is_study(folder):
        some = next(iter(sorted(folder.glob("trials/*/config.json"))), None)
        if some is None:
            return "a study's folder without trials, not a run"
        return f"a study's folder; its runs are its trials, such as {some.parent}"
    trial = read_json(folder / "trial.json")
    kinds = [stage.get("kind") for stage in trial.get("stages", ()) if isinstance(stage, dict)]
    if trial and "floors" in kinds:
        return "the trivial baselines (floors) of a study, not a run: nothing is trained; result.json has the numbers"
    if trial and "train" not in kinds:
        return "a measurement of a study, not a run: nothing is trained; result.json has the numbers"
    if trial:
        return "a trial that has not started; run its study, or attention-research attempt with this folder"
    return "no run there (config.json is missing)"


def nearest_folder(folder: Path) -> str:
    """ "; did you mean X?" for the folder beside a missing one with the nearest name; empty if no name is near."""
    try:
        names = sorted(one.name for one in folder.parent.iterdir() if one.is_dir())
    except (OSError, ValueError):
        return ""
    close = nearest(folder.name, names)
    return f"; did you mean {folder.parent / close}?" if close else ""


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty if the file is missing or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def in_use(folder: Path) -> bool:
    """Whether a process holds the folder's lock. Tests this by taking a shared lock for an instant; creates no file."""
    try:
        with (folder / ".lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def seconds_a_step(entries: Iterable[Mapping[str, Any]]) -> float | None:
    """The mean time of a training step in seconds, from the tokens and tokens/s of logged lines; None if unknown."""
    pairs: list[tuple[Any, Any]] = [(line.get("tokens"), line.get("tokens_per_second")) for line in entries]
    known = [(tokens, speed) for tokens, speed in pairs if is_number(tokens) and is_number(speed)]
    known = [(tokens, speed) for tokens, speed in known if 0 < tokens < math.inf and 0 < speed < math.inf]
    if not known:
        return None
    return statistics.fmean(tokens for tokens, _ in known) * statistics.fmean(1 / speed for _, speed in known)


@dataclasses.dataclass(frozen=True)
class Run:
    """A run's folder, read once.

    `evaluation` is empty if the run was not evaluated. `result` is empty unless the run is a finished trial of a study.
    `damaged` names the files that are there and cannot be read; they count as empty.
    """

    folder: Path
    config: Config
    metrics: Sequence[Mapping[str, Any]]
    environment: Mapping[str, Any]
    evaluation: Mapping[str, Any]
    result: Mapping[str, Any]
    damaged: tuple[str, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Run:
        """Reads the run in a folder. Raises ConfigError if there is none."""
        if not is_run(folder):
            raise ConfigError(f"{folder}: {no_run(folder)}")
        try:
            config = saved_config(folder).completed()
        except ConfigError as error:
            raise ConfigError(f"{folder}: {error}") from None
        found = {name: read_json(folder / name) for name in ("environment.json", "evaluation.json", "result.json")}
        if not replicas.is_evaluation(found["evaluation.json"]):
            found["evaluation.json"] = {}
        damaged = [name for name, document in found.items() if not document and (folder / name).exists()]
        environment, evaluation, result = found.values()
        return cls(folder, config, read_metrics(folder), environment, evaluation, result, tuple(damaged))

    @functools.cached_property
    def whose(self) -> str:
        """What tells the replicas apart: "seed", or "replica" if some of them share a seed."""
        found = {(line.get("replica", 0), line.get("seed", 0)) for line in self.metrics}
        return "seed" if len(found) == len({seed for _, seed in found}) else "replica"

    def curves(self, name: str, split: str = "train") -> dict[int, dict[int, float]]:
        """The logged values of `name`: seed (or replica, see `whose`) -> step -> value."""
        found: dict[int, dict[int, float]] = {}
        for line in self.metrics:
            if line["split"] == split and is_number(line.get(name)):
                found.setdefault(line.get(self.whose, 0), {})[line["step"]] = line[name]
        return found

    def further(self) -> dict[tuple[str, str], dict[int, dict[int, float]]]:
        """("NAME.METRIC", split) -> curves of each number that training logged of further evaluations."""
        lines = [line for line in self.metrics if line["split"] != "train"]
        named = dict.fromkeys((name, line["split"]) for line in lines for name in line if "." in name)
        return {(name, split): self.curves(name, split) for name, split in named}

    @property
    def steps(self) -> int:
        """The number of training steps in the config."""
        return self.config.resolved["training"]["steps"]

    @property
    def step(self) -> int:
        """The last logged training step; 0 if none is logged."""
        return max((line["step"] for line in self.metrics if line["split"] == "train"), default=0)

    @property
    def scores(self) -> dict[str, float]:
        """The scores in `evaluation.json`, with the split as a prefix, such as `test_bleu`. With replicas, means."""
        return self._scores(replicas.mean, replicas.scores_of)

    @property
    def further_scores(self) -> dict[str, float]:
        """The scores of further evaluations in `evaluation.json`, as "NAME.METRIC". With replicas, means."""
        return self._scores(replicas.mean, replicas.further_scores_of)

    @property
    def spreads(self) -> dict[str, float]:
        """The sample standard deviation of `scores` and `further_scores` over replicas; empty for a single run."""
        return self._scores(replicas.spread, replicas.scores_of) | self._scores(
            replicas.spread, replicas.further_scores_of
        )

    def _scores(
        self,
        figure: Callable[[Sequence[Mapping[str, float]]], dict[str, float]],
        scores: Callable[[Mapping[str, Any]], dict[str, float]],
    ) -> dict[str, float]:
        return figure([scores(one) for one in replicas.each(self.evaluation)])

    def numbers(self) -> dict[str, float | None]:
        """A summary of the run in numbers; None for unknown ones. With replicas, losses and scores are means over them.

        `training_loss` is the optimised loss, averaged over the last `LAST` logged steps. `evaluated_step` is the step
        of the checkpoint that the scores belong to, if it is another than `step`. `steps_per_second` is the measurement
        of a study's worker if there is one, else it comes from the logged tokens/s.
        """
        stages = {name: one for name, one in _dict(self.result.get("stages")).items() if isinstance(one, dict)}
        validation = _mean_curve(self.curves("loss", "validation"))
        training = _mean_curve(self.curves("loss"))
        a_step = seconds_a_step(line for line in self.metrics if line["split"] == "train")
        measured = stages.get("train", {}).get("steps_per_second")
        evaluated = self.evaluation.get("step", self.step)
        return {
            "parameters": stages.get("inspect", {}).get("parameters") or self.environment.get("parameters"),
            "step": self.step,
            "minutes_of_training": self.step * a_step / 60 if a_step else None,
            "training_loss": statistics.fmean(list(training.values())[-LAST:]) if training else None,
            "validation_loss": list(validation.values())[-1] if validation else None,
            "best_validation_loss": min(validation.values(), default=None, key=_nan_last),
            "evaluated_step": evaluated if is_number(evaluated) and evaluated != self.step else None,
            **self.scores,
            "steps_per_second": measured or (1 / a_step if a_step else None),
        }


def saved_config(folder: Path) -> Config:
    """The config in a folder. Raises ConfigError if it cannot be read or is not the config of a run."""
    try:
        config = Config.from_json((folder / "config.json").read_text(encoding="utf-8"))
        if type(config.resolved["training"]["steps"]) is not int:
            raise TypeError("training.steps is not an int")
        flat(config.given)
    except OSError as error:
        raise ConfigError(f"config.json: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"config.json: not a saved config ({type(error).__name__}: {error})") from None
    return config


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _mean_curve(seeds: Mapping[int, Mapping[int, float]]) -> dict[int, float]:
    """Step -> mean over the seeds, in order, for the steps that all seeds have."""
    steps = sorted(set.intersection(*map(set, seeds.values()))) if seeds else []
    return {step: statistics.fmean(seed[step] for seed in seeds.values()) for step in steps}


def _nan_last(value: float) -> tuple[bool, float]:
    return math.isnan(value), value
