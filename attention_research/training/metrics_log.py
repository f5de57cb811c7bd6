"""metrics.jsonl, the log of a run: one JSON object per line, with the step, the split and the numbers."""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import os
from pathlib import Path
from typing import Any

from attention_research.errors import RunError
from attention_research.training.workdir import json_text, write_text, writing


class MetricsLog:
    """Appends one JSON object per line to metrics.jsonl. When opened at a step, it drops the lines of later steps.

    Each line is written by one call. If the disk accepts only a part of the line, this part is removed again. A reader
    of a live run therefore never sees an incomplete line.

    >>> from tempfile import TemporaryDirectory
    >>> temporary = TemporaryDirectory()
    >>> workdir = Path(temporary.name)
    >>> log = MetricsLog(workdir, step=0)
    >>> log.write(step=1, split="train", loss=6.91)
    >>> log.close()
    >>> read_metrics(workdir)
    [{'step': 1, 'split': 'train', 'loss': 6.91}]
    """

    def __init__(self, workdir: Path, step: int):
        self.path = workdir / "metrics.jsonl"
        if self.path.exists():
            kept = [line for line in read_metrics(workdir) if line["step"] <= step]
            write_text(self.path, "".join(json_text(line) + "\n" for line in kept))
        with writing(self.path):
            self.file = self.path.open("ab", buffering=0)

    def write(self, **values: Any) -> None:
        """Writes one line. Raises RunError if writing fails."""
        line = (json_text(values) + "\n").encode()
        with writing(self.path):
            end = os.fstat(self.file.fileno()).st_size
            if self.file.write(line) != len(line):
                os.ftruncate(self.file.fileno(), end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> None:
        """Waits until the lines are on disk, so that a following checkpoint never contains steps missing in the log."""
        with writing(self.path):
            os.fsync(self.file.fileno())

    def close(self) -> None:
        """Closes the file."""
        self.file.close()


class NoLog:
    """Replaces `MetricsLog` on every host except the first one. Writes nothing."""

    def write(self, **values: Any) -> None:
        """Does nothing."""

    def sync(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


def read_metrics(workdir: Path) -> list[dict[str, Any]]:
    """The logged lines. Incomplete lines, and lines that this program did not write, are left out. Raises RunError if
    the file cannot be read."""
    path = workdir / "metrics.jsonl"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}") from None
    return [entry for line in data.split(b"\n") if (entry := logged(line)) is not None]


def logged(line: bytes) -> dict[str, Any] | None:
    """Parses a line of metrics.jsonl, with a null loss as NaN. Returns None if the line is invalid.

    >>> logged(b'{"step": 10, "split": "train", "loss": null}')
    {'step': 10, 'split': 'train', 'loss': nan}
    >>> logged(b'{"step": 10, "spl') is None
    True
    """
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not (isinstance(entry, dict) and type(entry.get("step")) is int and isinstance(entry.get("split"), str)):
        return None
    if "loss" in entry and type(entry["loss"]) not in (int, float):
        entry["loss"] = math.nan
    return entry


@dataclasses.dataclass(frozen=True)
class Criterion:
    """The logged number of a split that ranks checkpoints."""

    name: str = "loss"
    higher: bool = False
    split: str = "validation"

    def __str__(self) -> str:
        return "lowest validation loss" if self == LOSS else f"{'highest' if self.higher else 'lowest'} {self.name}"

    def costs(self, workdir: Path) -> dict[int, float]:
        """Step -> the mean over the seeds, negated if higher is better. Steps with a NaN or infinite value are left
        out."""
        found: dict[int, list[float]] = {}
        for line in read_metrics(workdir):
            if line["split"] == self.split and self.name in line:
                value = line[self.name]
                found.setdefault(line["step"], []).append(math.nan if value is None else value)
        sign = -1 if self.higher else 1
        return {step: sign * sum(x) / len(x) for step, x in found.items() if all(map(math.isfinite, x))}


LOSS = Criterion()
