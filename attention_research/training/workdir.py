"""Reads, writes and locks a run's folder: config.json, environment.json, metrics.jsonl, checkpoints/ and
evaluation.json."""

from __future__ import annotations

import contextlib
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
from attention_research.config.entry_points import check_installed
from attention_research.errors import RunError

LOCK = ".lock"


class Busy(RunError):
    """Another process holds the lock of the folder."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Converts an error of the file system (such as a full disk or a missing permission) into a RunError of one
    line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(f"cannot write {path}: {reason}; fix this and rerun the same command") from error


def json_text(document: Any, **layout: Any) -> str:
    """Standard JSON, with null for NaN and infinities, which JSON cannot represent.

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
    """Writes a document as JSON with `write_text` and `json_text`."""
    write_text(path, json_text(document, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes a file atomically: a reader sees either the old or the new file. Raises RunError if writing fails."""
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
    """Locks the folder of a run or a study for this process. The kernel releases the lock when the process ends, even
    after a crash."""
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        file = (workdir / LOCK).open("a")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            line = f"cannot write {workdir}: {error.strerror}; fix this and rerun the same command"
            raise RunError(line) from error
        reason = error.strerror or error
        raise ConfigError(f"--workdir={workdir}: cannot write there ({reason}); give another folder") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A failed start may have deleted the file meanwhile, and another process may have made it again.
            same = os.path.samestat(os.fstat(file.fileno()), os.stat(workdir / LOCK))
        except (BlockingIOError, FileNotFoundError):
            same = False
        if not same:
            raise Busy(f"{workdir}: another process uses this folder; wait for it, or give another --workdir")
        yield


def load_config(workdir: Path) -> Config:
    """The config of the run in this folder, completed by settings that were added later (`Config.completed`).

    Raises ConfigError if one of its kinds came from a package that is not installed.
    """
    config = saved_config(workdir)
    with contextlib.suppress(OSError, ValueError, AttributeError):  # environment.json only helps to explain
        document = json.loads((workdir / "environment.json").read_text(encoding="utf-8"))
        check_installed(document.get("variants", {}), f"--workdir={workdir}")
    return config.completed()


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
