"""Curves, evaluations and pictures of a run for TensorBoard and Weights & Biases (`training.track`).

A tracker is given every line of metrics.jsonl, which stays the truth, and at the end the scores of evaluation.json and
the report's pictures. A continued run repeats no step: TensorBoard's events are written anew from metrics.jsonl, and
Weights & Biases is given the steps that it does not have. A number's name is "SPLIT/NAME", with "/replica_R" after it
where a run has replicas. Both packages are optional, in the extras `track` and `wandb`.
"""

from __future__ import annotations

import importlib
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from attention_research.config import ConfigError
from attention_research.training.workdir import MetricsLog, NoLog, read_metrics, write_json

#: What a line says of itself.
_LABELS = ("step", "split", "seed", "replica")
TRAINING, RESULTS = "training", "results"


class Tracker(Protocol):
    """Where numbers and pictures of a run go. Steps come in order."""

    def numbers(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers by name, of one step."""
        ...

    def picture(self, name: str, path: Path, step: int) -> None:
        """A PNG file."""
        ...

    def close(self) -> None:
        """Writes what is not written yet."""
        ...


class TensorBoard:
    """Event files under `WORKDIR/tensorboard`, by tensorboardX: one of the training and one of the results, each
    written anew when it is opened."""

    def __init__(self, workdir: Path, part: str):
        package = _package("tensorboardX", "track")
        folder = workdir / "tensorboard"
        for path in folder.glob(f"events.*.{part}"):
            path.unlink()
        self.writer = package.SummaryWriter(str(folder), filename_suffix=f".{part}")
        for line in read_metrics(workdir) if part == TRAINING else ():
            self.numbers(line["step"], named(line))

    def numbers(self, step: int, values: Mapping[str, float]) -> None:
        """As `Tracker.numbers`."""
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def picture(self, name: str, path: Path, step: int) -> None:
        """As `Tracker.picture`."""
        from matplotlib import image  # in the extra `report`, which drew it

        self.writer.add_image(name, (255 * image.imread(str(path))[..., :3]).astype("uint8"), step, dataformats="HWC")

    def close(self) -> None:
        """As `Tracker.close`."""
        self.writer.close()


class WeightsAndBiases:
    """A run of Weights & Biases; project, server and mode are those of its environment variables (WANDB_PROJECT,
    WANDB_MODE=offline). `WORKDIR/wandb.json` holds the run's id and the last step that was given."""

    def __init__(self, workdir: Path, part: str):
        self.package, self.file = _package("wandb", "wandb"), workdir / "wandb.json"
        known = json.loads(self.file.read_text(encoding="utf-8")) if self.file.exists() else {}
        self.id, self.last, self.part = known.get("id", secrets.token_hex(4)), known.get("step", 0), part
        write_json(self.file, {"id": self.id, "step": self.last})
        config = json.loads((workdir / "config.json").read_text(encoding="utf-8"))["resolved"]
        self.run = self.package.init(id=self.id, resume="allow", dir=str(workdir), name=workdir.name, config=config)
        for line in read_metrics(workdir) if part == TRAINING else ():
            self.numbers(line["step"], named(line))

    def numbers(self, step: int, values: Mapping[str, float]) -> None:
        """As `Tracker.numbers`; of a step that an earlier process has given, nothing. Results have no step: the run's
        may be past theirs."""
        if self.part == RESULTS:
            self.run.log(dict(values))
        elif step > self.last:
            self.run.log(dict(values), step=step)

    def picture(self, name: str, path: Path, step: int) -> None:
        """As `Tracker.picture`; it belongs to the run, whose steps may be past `step`."""
        del step
        self.run.log({name: self.package.Image(str(path))})

    def close(self) -> None:
        """As `Tracker.close`."""
        steps = [line["step"] for line in read_metrics(self.file.parent)]
        write_json(self.file, {"id": self.id, "step": max([self.last, *steps])})
        self.run.finish()


KINDS: dict[str, Callable[[Path, str], Tracker]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}
_PACKAGES = {"tensorboard": ("tensorboardX", "track"), "wandb": ("wandb", "wandb")}


def check(kinds: Iterable[str]) -> None:
    """Raises ConfigError where a package is missing."""
    for kind in kinds:
        _package(*_PACKAGES[kind])


def opened(kinds: Iterable[str], workdir: Path, part: str = TRAINING) -> list[Tracker]:
    """The trackers of a run's folder; of the training they have the lines that metrics.jsonl has."""
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
    """A `MetricsLog` of which every line also goes to trackers."""

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
