"""What a run's folder says, read from its files alone, whether or not a process works there."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import math
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_research.config import Config, ConfigError
from attention_research.config.record import flat
from attention_research.training.workdir import read_metrics

#: A final training loss is the mean of this many last logged steps, as in a study's tables.
LAST = 10
#: What `evaluation.json` holds beside its scores.
_NO_SCORES = {"step", "seed", "seconds", "tokens", "sentences"}


def is_run(folder: Path) -> bool:
    """Whether a config was trained here, or is to be."""
    return os.path.isfile(folder / "config.json")  # Path.is_file raises where the folder may not be searched


def is_study(folder: Path) -> bool:
    """Whether this is the folder of a study or a sweep at a scale."""
    return os.path.isdir(folder / "trials")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; empty where the file is not there or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def in_use(folder: Path) -> bool:
    """Whether a process holds the folder's lock. Looks by sharing the lock for an instant, and creates nothing."""
    try:
        with (folder / ".lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def seconds_a_step(entries: Iterable[Mapping[str, Any]]) -> float | None:
    """Time of a training step over some logged lines: their mean number of tokens by their tokens/s."""
    pairs: list[tuple[Any, Any]] = [(line.get("tokens"), line.get("tokens_per_second")) for line in entries]
    known = [(tokens, speed) for tokens, speed in pairs if is_number(tokens) and is_number(speed)]
    known = [(tokens, speed) for tokens, speed in known if 0 < tokens < math.inf and 0 < speed < math.inf]
    if not known:
        return None
    return statistics.fmean(tokens for tokens, _ in known) * statistics.fmean(1 / speed for _, speed in known)


def is_number(value: Any) -> bool:
    """Whether it is an int or a float; NaN is one, true is none."""
    return type(value) in (int, float)


@dataclasses.dataclass(frozen=True)
class Run:
    """A run's folder, read once: `evaluation` and `result` (of a study's trial) are empty where there is none."""

    folder: Path
    config: Config
    metrics: Sequence[Mapping[str, Any]]
    environment: Mapping[str, Any]
    evaluation: Mapping[str, Any]
    result: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Run:
        """The run in a folder. Raises ConfigError, one line, where there is none."""
        if is_study(folder) and not is_run(folder):
            some = next(iter(sorted(folder.glob("trials/*/config.json"))), folder / "trials" / "ID" / "config.json")
            raise ConfigError(f"{folder}: a study's folder; its runs are its trials, such as {some.parent}")
        if not is_run(folder):
            why = "config.json is missing" if folder.is_dir() else "no such folder"
            raise ConfigError(f"{folder}: no run there ({why})")
        try:
            config = saved_config(folder)
        except ConfigError as error:
            raise ConfigError(f"{folder}: {error}") from None
        files = ("environment.json", "evaluation.json", "result.json")
        return cls(folder, config, read_metrics(folder), *(read_json(folder / name) for name in files))

    def curves(self, name: str, split: str = "train") -> dict[int, dict[int, float]]:
        """Seed -> step -> a logged number."""
        found: dict[int, dict[int, float]] = {}
        for line in self.metrics:
            if line["split"] == split and is_number(line.get(name)):
                found.setdefault(line.get("seed", 0), {})[line["step"]] = line[name]
        return found

    @property
    def steps(self) -> int:
        """How many the config asks for."""
        return self.config.resolved["training"]["steps"]

    @property
    def step(self) -> int:
        """The last one that was logged; 0 before the first."""
        return max((line["step"] for line in self.metrics if line["split"] == "train"), default=0)

    @property
    def scores(self) -> dict[str, float]:
        """The numbers of `evaluation.json` that say how good the model is, under the split's name: `test_bleu`."""
        split = self.evaluation.get("split", "evaluation")
        numbers = {name: x for name, x in self.evaluation.items() if type(x) in (int, float)}
        return {f"{split}_{name}": float(x) for name, x in numbers.items() if name not in _NO_SCORES}

    def numbers(self) -> dict[str, float | None]:
        """The run in a few numbers, None for what is not known; means over the seeds where there are replicas.

        `training_loss` is the optimised one, of the last `LAST` logged steps; `steps_per_second` comes from the logged
        tokens/s, or is what a study's worker measured.
        """
        stages = {name: one for name, one in _dict(self.result.get("stages")).items() if isinstance(one, dict)}
        validation = _mean_curve(self.curves("loss", "validation"))
        training = _mean_curve(self.curves("loss"))
        a_step = seconds_a_step(line for line in self.metrics if line["split"] == "train")
        measured = stages.get("train", {}).get("steps_per_second")
        return {
            "parameters": stages.get("inspect", {}).get("parameters"),
            "step": self.step,
            "training_loss": statistics.fmean(list(training.values())[-LAST:]) if training else None,
            "validation_loss": list(validation.values())[-1] if validation else None,
            "best_validation_loss": min(validation.values(), default=None, key=_nan_last),
            **self.scores,
            "steps_per_second": measured or (1 / a_step if a_step else None),
        }


def saved_config(folder: Path) -> Config:
    """The config in a folder. Raises ConfigError where it cannot be read, or is none of a run."""
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
    """Step -> mean over the seeds, of the steps that all of them have, in order."""
    steps = sorted(set.intersection(*map(set, seeds.values()))) if seeds else []
    return {step: statistics.fmean(seed[step] for seed in seeds.values()) for step in steps}


def _nan_last(value: float) -> tuple[bool, float]:
    return math.isnan(value), value
