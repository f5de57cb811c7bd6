"""Curves, evaluations and pictures of a run for TensorBoard and Weights & Biases (`training.track`).

A tracker receives every line of metrics.jsonl, and at the end the scores of evaluation.json and the figures of the
report. A resumed run repeats no step: the events of TensorBoard are rewritten from metrics.jsonl, and Weights & Biases
receives only the steps that it does not have. The name of a number is "SPLIT/NAME", followed by "/replica_R" if the run
has replicas. Both packages are optional, in the extras `track` and `wandb`.
"""

from __future__ import annotations

import importlib
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from attention_research.config import ConfigError
from attention_research.training.metrics_log import MetricsLog, NoLog, read_metrics
from attention_research.training.workdir import read_json, write_json

#: Entries of a line that label it.
_LABELS = ("step", "split", "seed", "replica")
TRAINING, RESULTS = "training", "results"


class Tracker(Protocol):
    """Receives the numbers and figures of a run, in the order of steps."""

    def numbers(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers by name, of one step."""
        ...

    def picture(self, name: str, path: Path, step: int) -> None:
        """A PNG file."""
        ...

    def close(self) -> None:
        """Writes all pending data."""
        ...


class TensorBoard:
    """Writes event files under `WORKDIR/tensorboard` with tensorboardX: one for training and one for results. Opening
    the tracker replaces the file."""

    def __init__(self, workdir: Path, part: str):
        package = _package("tensorboardX", "track")
        folder = workdir / "tensorboard"
        for path in folder.glob(f"events.*.{part}"):
            path.unlink()
        self.writer = package.SummaryWriter(str(folder), filename_suffix=f".{part}")
        for line in read_metrics(workdir) if part == TRAINING else ():
            self.numbers(line["step"], named(line))

    def numbers(self, step: int, values: Mapping[str, float]) -> None:
        """See `Tracker.numbers`."""
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def picture(self, name: str, path: Path, step: int) -> None:
        """See `Tracker.picture`."""
        from matplotlib import image  # from the extra `report`, which also drew the picture

        self.writer.add_image(name, (255 * image.imread(str(path))[..., :3]).astype("uint8"), step, dataformats="HWC")

    def close(self) -> None:
        """See `Tracker.close`."""
        self.writer.close()


class WeightsAndBiases:
    """Logs to a run of Weights & Biases. Its environment variables set the project, server and mode (WANDB_PROJECT,
    WANDB_MODE=offline). `WORKDIR/wandb.json` holds the id of the run and the last logged step."""

    def __init__(self, workdir: Path, part: str):
        self.package, self.file = _package("wandb", "wandb"), workdir / "wandb.json"
        known = read_json(self.file, "restore it, or delete it to log to a new run")
        self.id, self.last, self.part = known.get("id", secrets.token_hex(4)), known.get("step", 0), part
        write_json(self.file, {"id": self.id, "step": self.last})
        config = json.loads((workdir / "config.json").read_text(encoding="utf-8"))["resolved"]
        self.run = self.package.init(id=self.id, resume="allow", dir=str(workdir), name=workdir.name, config=config)
        for line in read_metrics(workdir) if part == TRAINING else ():
            self.numbers(line["step"], named(line))

    def numbers(self, step: int, values: Mapping[str, float]) -> None:
        """See `Tracker.numbers`. Skips steps that an earlier process has logged. Results are logged without a step,
        because the run may have logged later steps."""
        if self.part == RESULTS:
            self.run.log(dict(values))
        elif step > self.last:
            self.run.log(dict(values), step=step)

    def picture(self, name: str, path: Path, step: int) -> None:
        """See `Tracker.picture`. Logs without a step, because the run may have logged later steps."""
        del step
        self.run.log({name: self.package.Image(str(path))})

    def close(self) -> None:
        """See `Tracker.close`."""
        steps = [line["step"] for line in read_metrics(self.file.parent)]
        write_json(self.file, {"id": self.id, "step": max([self.last, *steps])})
        self.run.finish()


KINDS: dict[str, Callable[[Path, str], Tracker]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}
_PACKAGES = {"tensorboard": ("tensorboardX", "track"), "wandb": ("wandb", "wandb")}


def check(kinds: Iterable[str]) -> None:
    """Raises ConfigError if a package is missing."""
    for kind in kinds:
        _package(*_PACKAGES[kind])


def opened(kinds: Iterable[str], workdir: Path, part: str = TRAINING) -> list[Tracker]:
    """The trackers of a run. Those of training start with the lines of metrics.jsonl."""
    return [KINDS[kind](workdir, part) for kind in kinds]


def named(line: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a line of metrics.jsonl under their names.

    >>> named({"step": 2, "split": "train", "seed": 1, "replica": 1, "loss": 3.5})
    {'train/loss/replica_1': 3.5}
    """
    of = f"/replica_{line['replica']}" if "replica" in line else ""
    return {
        f"{line['split']}/{name}{of}": float(value)
        for name, value in line.items()
        if name not in _LABELS and isinstance(value, int | float)
    }


class TrackedLog:
    """A `MetricsLog` that also sends every line to trackers."""

    def __init__(self, log: MetricsLog | NoLog, trackers: list[Tracker]):
        self.log, self.trackers = log, trackers
        self.sync = log.sync

    def write(self, **values: Any) -> None:
        """One line."""
        self.log.write(**values)
        for tracker in self.trackers:
            tracker.numbers(values["step"], named(values))

    def close(self) -> None:
        """Closes the file and the trackers."""
        self.log.close()
        for tracker in self.trackers:
            tracker.close()


def _package(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise ConfigError(
            f"config.training.track: {name} is missing, the extra `{extra}`: pip install 'attention_research[{extra}]'"
        ) from None
