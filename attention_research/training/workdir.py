"""A run's folder: config.json, environment.json, metrics.jsonl, checkpoints/, evaluation.json; who may write there."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attention_research.config import Config, ConfigError
from attention_research.errors import RunError

LOCK = ".lock"


class Busy(RunError):
    """Another process works in the folder."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns a file system's refusal (a full disk, no permission) into a RunError of one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(f"cannot write {path}: {reason}; put that right and rerun the same command") from error


def json_text(document: Any, **layout: Any) -> str:
    """JSON as every reader takes it: null stands for NaN and infinities, which JSON does not have.

    >>> json_text({"loss": float("nan"), "curve": (1.0, float("inf"))})
    '{"loss": null, "curve": [1.0, null]}'
    """
    return json.dumps(_finite(document), allow_nan=False, **layout)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def write_json(path: Path, document: Any) -> None:
    """`write_text` of a document, by `json_text`."""
    write_text(path, json_text(document, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Atomically: a reader sees the old file or the new one. Raises RunError where the disk does not take it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with writing(path):
        try:
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def locked(workdir: Path) -> Iterator[None]:
    """Holds a run's or a study's folder for this process; the kernel lets go when it ends, however it ends."""
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        file = (workdir / LOCK).open("a")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            line = f"cannot write {workdir}: {error.strerror}; put that right and rerun the same command"
            raise RunError(line) from error
        reason = error.strerror or error
        raise ConfigError(f"--workdir={workdir}: cannot write there ({reason}); give another folder") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.stat(workdir / LOCK)  # deleted meanwhile, by a start that failed
        except (BlockingIOError, FileNotFoundError):
            raise Busy(f"{workdir}: another process works there; wait for it, or give another --workdir") from None
        yield


def load_config(workdir: Path) -> Config:
    """The config of the run in this folder, completed by newer settings (`Config.completed`), to be built from."""
    return saved_config(workdir).completed()


def saved_config(workdir: Path) -> Config:
    """The config of the run in this folder as it was saved. Raises ConfigError if there is none."""
    try:
        text = (workdir / "config.json").read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"--workdir={workdir}: no run there (config.json is missing); train one first") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"--workdir={workdir}: config.json cannot be read ({reason})") from None
    return Config.from_json(text)


class MetricsLog:
    """Appends one JSON object a line to metrics.jsonl; opened at a step, it drops what lies beyond it.

    A line is one write, taken back where the disk took only a part of it: no reader sees half a line of a live run.
    """

    def __init__(self, workdir: Path, step: int):
        self.path = workdir / "metrics.jsonl"
        if self.path.exists():
            kept = [line for line in read_metrics(workdir) if line["step"] <= step]
            write_text(self.path, "".join(json_text(line) + "\n" for line in kept))
        with writing(self.path):
            self.file = self.path.open("ab", buffering=0)

    def write(self, **values: Any) -> None:
        """One line. Raises RunError where the disk does not take it."""
        line = (json_text(values) + "\n").encode()
        with writing(self.path):
            end = os.fstat(self.file.fileno()).st_size
            if self.file.write(line) != len(line):
                os.ftruncate(self.file.fileno(), end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> None:
        """Waits until the disk has the lines: a checkpoint that follows never knows steps that the log has lost."""
        with writing(self.path):
            os.fsync(self.file.fileno())

    def close(self) -> None:
        """Closes the file."""
        self.file.close()


class NoLog:
    """The `MetricsLog` of a host that is not the first."""

    def write(self, **values: Any) -> None:
        """Nothing."""

    def sync(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def read_metrics(workdir: Path) -> list[dict[str, Any]]:
    """The logged lines; one that is torn, or otherwise no line of this program, is left out. Raises RunError where the
    file cannot be read."""
    path = workdir / "metrics.jsonl"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}") from None
    return [entry for line in data.split(b"\n") if (entry := logged(line)) is not None]


def logged(line: bytes) -> dict[str, Any] | None:
    """A line of metrics.jsonl, a null loss as NaN; None where it is no such line."""
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
    """By which logged number of a split checkpoints are better than others."""

    name: str = "loss"
    higher: bool = False
    split: str = "validation"

    def __str__(self) -> str:
        return "lowest validation loss" if self == LOSS else f"{'highest' if self.higher else 'lowest'} {self.name}"

    def costs(self, workdir: Path) -> dict[int, float]:
        """Step -> the mean over the seeds, its sign changed where higher is better, of the steps where each of them is
        a number."""
        found: dict[int, list[float]] = {}
        for line in read_metrics(workdir):
            if line["split"] == self.split and self.name in line:
                value = line[self.name]
                found.setdefault(line["step"], []).append(math.nan if value is None else value)
        sign = -1 if self.higher else 1
        return {step: sign * sum(x) / len(x) for step, x in found.items() if all(map(math.isfinite, x))}


LOSS = Criterion()
