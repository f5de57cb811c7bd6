"""Reads, writes and locks the files of a run's folder, such as config.json (`metrics_log` has metrics.jsonl)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from attention_research.config import Config, ConfigError
from attention_research.config.entry_points import check_installed
from attention_research.errors import RunError

LOCK = ".lock"
#: A lock that is held for a shorter time, in seconds, as `status` holds it to see whether a run is running, is waited
#: for.
PATIENCE = 0.5


class Busy(RunError):
    """Another process holds the lock of the folder."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Converts an error of the file system (such as a full disk or a missing permission) into a RunError of one
    line."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise RunError(f"cannot write {path}: {reason}; fix this and rerun the same command") from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, for a file that the block writes. It is renamed to `path` if the block ends
    without an error, so that a reader sees either the old or the new file. Raises RunError if writing fails."""
    temporary = _beside(path)
    with writing(path):
        try:
            yield temporary
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


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


def check_writable(path: Path) -> None:
    """Raises RunError if `write_text` could not write this file, for example without permission for its folder."""
    temporary = _beside(path)
    with writing(path):
        temporary.touch()
        temporary.unlink()


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


def write_text(path: Path, text: str) -> None:
    """Writes a file atomically (`replacing`). Raises RunError if writing fails."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """The JSON object in a file; {} if there is no file. Raises ConfigError with the `remedy` if the file is damaged,
    which is possible after a failure of the machine."""
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: damaged ({error}); {remedy}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: damaged (not a JSON object); {remedy}")
    return document


def read_environment(workdir: Path) -> dict[str, Any]:
    """The content of environment.json; {} if there is none. Raises ConfigError if it is damaged."""
    return read_json(workdir / "environment.json", "restore it, or delete it")


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
            _take(file)
            # A failed start may have deleted the file meanwhile, and another process may have made it again.
            same = os.path.samestat(os.fstat(file.fileno()), os.stat(workdir / LOCK))
        except (BlockingIOError, FileNotFoundError):
            same = False
        if not same:
            raise Busy(f"{workdir}: another process uses this folder; wait for it, or give another --workdir")
        yield


def _take(file: IO[str]) -> None:
    """Takes the lock of a file within `PATIENCE`. Raises BlockingIOError if another process holds it longer."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(PATIENCE / 50)


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
    try:
        return Config.from_json(text)
    except ConfigError as error:
        line = str(error)
        raise ConfigError(f"{workdir}/{line}" if line.startswith("config.json:") else line) from None
