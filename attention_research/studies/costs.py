"""Estimates how long trials take, from recorded times of the trial itself, of its row, or of its study."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from attention_research.studies.attempts import spent
from attention_research.studies.progress import last_entry
from attention_research.studies.trial_folders import Folder
from attention_research.studies.trials import Trial

#: Sources of an estimate, the best first.
SOURCES = ("trial", "row", "study", "begun", "unknown")
#: The assumed start-up time (Python, JAX, the data and the first compilation) until one was recorded.
_START_SECONDS = 60.0
#: The largest share of an unfinished trial that counts as done, since evaluations follow the training.
_TRAINED = 0.9


@dataclasses.dataclass(frozen=True)
class Cost:
    """The estimated cost of a trial.

    `seconds` is the time that the trial still needs (None: unknown), from one of `SOURCES`. `least` is the shortest
    time for which it is worth starting.
    """

    seconds: float | None
    source: str
    least: float


class Costs:
    """The costs of the trials of a study at a scale. `known` are trials with their results."""

    def __init__(self, known: Iterable[tuple[Trial, Mapping[str, Any]]], folder: Folder):
        self.folder = folder
        self.own: dict[str, float] = {}
        rows: dict[tuple[str, int | None], dict[str, float]] = {}
        starts: list[float] = []
        for trial, result in known:
            if (seconds := worked(result)) is None:
                continue
            self.own[trial.id] = rows.setdefault((trial.row, trial.point), {})[trial.id] = seconds
            starts += filter(None, [started(result)])
        self.rows = {row: statistics.fmean(times.values()) for row, times in rows.items()}
        self.study = statistics.fmean(self.own.values()) if self.own else None
        self.start = statistics.median(starts) if starts else _START_SECONDS

    def of(self, trial: Trial) -> Cost:
        """The remaining cost of an unfinished trial."""
        place = self.folder.trial(trial)
        entry = last_entry(place / "metrics.jsonl") if trial.steps else None
        done = min(_TRAINED, entry["step"] / trial.steps) if entry and trial.steps else 0.0
        whole, source = next(
            (
                (seconds, source)
                for source, seconds in (
                    ("trial", self.own.get(trial.id)),
                    ("row", self.rows.get((trial.row, trial.point))),
                    ("study", self.study),
                    ("begun", spent(place) / done if done else None),
                )
                if seconds
            ),
            (None, "unknown"),
        )
        left = None if whole is None else whole * (1 - done)
        saves = any(stage["kind"] in ("train", "finetune") for stage in trial.stages)
        # Training can be stopped and continued. Starting it is worthwhile if it can run for as long as its start-up.
        least = 2 * self.start if saves else left or 0.0
        return Cost(left, source, least if left is None else min(least, left))


def worked(result: Mapping[str, Any]) -> float | None:
    """Seconds that a finished trial took. A trial that was trained together with others counts its share."""
    train = result["stages"].get("train", {})
    replicas = train.get("replicas", 1)
    together = train.get("stage_seconds", train.get("seconds", 0.0)) / replicas if replicas > 1 else 0.0
    alone = sum(
        one.get("stage_seconds", 0.0)
        for name, one in result["stages"].items()
        if isinstance(one, Mapping) and not (name == "train" and replicas > 1)
    )
    return max(result.get("seconds") or 0.0, alone) + together or None


def started(result: Mapping[str, Any]) -> float | None:
    """Seconds of a training outside its steps: start-up, compilation, validation, checkpoints; None if unknown."""
    train = result["stages"].get("train", {})
    if not {"stage_seconds", "seconds", "compile_seconds"} <= train.keys():
        return None
    return train["stage_seconds"] - train["seconds"] + train["compile_seconds"]


def seconds_a_step(result: Mapping[str, Any]) -> float | None:
    """Seconds of a training step. A trial that was trained together with others counts its share."""
    train = result["stages"].get("train", {})
    speed = train.get("steps_per_second")
    return 1 / (speed * train.get("replicas", 1)) if speed else None


def after_training(result: Mapping[str, Any]) -> float | None:
    """Seconds of the stages after training (evaluations, measurements, fine-tunings); None if unknown."""
    times = [
        one["stage_seconds"]
        for name, one in result["stages"].items()
        if name != "train" and isinstance(one, Mapping) and "stage_seconds" in one
    ]
    return sum(times) if times else None
