"""Starts a trial as a process and interprets its exit status: on this machine, on a Ray node, or in a Slurm job."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from attention_research.errors import RunError
from attention_research.studies.attempts import SUPERSEDED
from attention_research.training.failure import tell_failure
from attention_research.training.workdir import writing

#: More than the free part of the last block of a full disk.
_PROBE_BYTES = 2**16


class Ending(NamedTuple):
    """How a trial ended. `state` is "done", "killed" (a retry may succeed) or "failed" (a retry would fail again)."""

    state: str
    line: str = ""


def start(
    folder: Path,
    *,
    cores: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    deaf_to: Sequence[int] = (),
) -> subprocess.Popen:
    """Starts ``attention-research attempt FOLDER`` on these cores, in `directory`, with its output in FOLDER/log.txt.

    The process ignores the signals `deaf_to`. It dies with this process. It runs in its own session, so that Ctrl-C in
    the terminal does not reach it.
    """
    command = [sys.executable, "-m", "attention_research", "attempt", str(folder)]
    options = [*([f"--cores={','.join(map(str, cores))}"] if cores else []), f"--parent={os.getpid()}"]
    with open(folder / "log.txt", "ab", buffering=0) as log:
        with writing(folder / "log.txt"):
            log.write(f"$ {shlex.join(command)}\n".encode())
        return subprocess.Popen(
            [*command, *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
            cwd=directory,
            preexec_fn=partial(_ignore, deaf_to) if deaf_to else None,
        )


def ending(folder: Path, status: int) -> Ending:
    """The ending of a trial, from the exit status of its process."""
    if status == 0:
        return Ending("done")
    if status < 0 or status in (128 + signal.SIGTERM, 128 + signal.SIGKILL):
        return Ending("killed", _how(status))
    if status == SUPERSEDED:
        return Ending("failed", "a later attempt took it over")
    return Ending("failed", error_of(folder) or _unwritable(folder) or f"{_how(status)}; see {folder / 'log.txt'}")


def given_up(folder: Path, line: str) -> str:
    """The error line of a trial that was killed too often. Writes it to error.txt, for `status` and the table."""
    if not error_of(folder):
        tell_failure(folder, line)
    return f"{line}; see {folder / 'log.txt'}"


def error_of(folder: Path) -> str:
    """The error line of a failed trial; empty if there is none."""
    try:
        return (folder / "error.txt").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def _unwritable(folder: Path) -> str:
    """Why a failed trial could not write its error line, such as a full disk; empty if the folder takes files."""
    probe = folder / ".probe"
    try:
        with writing(folder):
            probe.write_bytes(bytes(_PROBE_BYTES))
    except RunError as error:
        return str(error)
    finally:
        probe.unlink(missing_ok=True)
    return ""


def _ignore(signals: Sequence[int]) -> None:
    for number in signals:
        signal.signal(number, signal.SIG_IGN)


def _how(status: int) -> str:
    if status == -signal.SIGKILL:
        return "killed (SIGKILL: by hand, or no memory left)"
    if status < 0:
        return f"killed ({signal.Signals(-status).name})"
    return f"ended with status {status}"
