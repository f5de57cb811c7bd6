"""Trials as supervised subprocesses of this machine, a few at a time, each on its own share of the cores.

One loop in one thread starts and watches them. A worker killed by a signal (no memory left, a hand) is started again
and resumes from its checkpoint, twice at most; one that fails is reported and the others go on; an interrupt stops all.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

#: report(folder, state, line): state is "running", "retrying", "done" or "failed".
Report = Callable[[Path, str, str], None]

RETRIES = 2
_POLL_SECONDS = 0.1
_GRACE_SECONDS = 10.0


class LocalRunner:
    """``jobs`` trials at a time; ``command(folder)`` gives the worker's command line (the module's own by default)."""

    def __init__(self, jobs: int = 1, retries: int = RETRIES):
        self.jobs, self.retries = max(1, min(jobs, len(_cores()))), retries

    def run(self, folders: list[Path], report: Report, tick: Callable[[], None] = lambda: None) -> dict[Path, str]:
        """Run the trials in these folders; returns folder -> "done" or the error's line.

        ``tick`` is called about ten times a second. An interrupt (Ctrl-C, SIGTERM) ends every worker and is raised.
        """
        waiting = deque(folders)
        slots = deque(_shares(self.jobs))
        running: dict[subprocess.Popen, tuple[Path, list[int]]] = {}
        kills: dict[Path, int] = {}
        outcome: dict[Path, str] = {}
        with _terminate_as_interrupt():
            try:
                while waiting or running:
                    while waiting and slots:
                        folder, cores = waiting.popleft(), slots.popleft()
                        running[_start(folder, cores)] = (folder, cores)
                        report(folder, "running", "")
                    for process in [p for p in running if p.poll() is not None]:
                        folder, cores = running.pop(process)
                        slots.append(cores)
                        status = process.returncode
                        killed = status < 0 or status in (128 + signal.SIGTERM, 128 + signal.SIGKILL)
                        if killed and kills.get(folder, 0) < self.retries:
                            kills[folder] = kills.get(folder, 0) + 1
                            waiting.appendleft(folder)
                            report(folder, "retrying", f"{_how(status)}; starts again from its last checkpoint")
                        elif status == 0:
                            outcome[folder] = "done"
                            report(folder, "done", "")
                        else:
                            outcome[folder] = _error(folder, status)
                            report(folder, "failed", outcome[folder])
                    tick()
                    time.sleep(_POLL_SECONDS)
            finally:
                _stop(running)
        return outcome


def _start(folder: Path, cores: list[int]) -> subprocess.Popen:
    command = [sys.executable, "-m", "attention_research.studies.worker", str(folder)]
    command += [f"--cores={','.join(map(str, cores))}", f"--parent={os.getpid()}"]
    with open(folder / "log.txt", "ab") as log:
        # A session of its own: the terminal's interrupt reaches this process, which ends the workers in order.
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )


def _error(folder: Path, status: int) -> str:
    try:
        return (folder / "error.txt").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        (folder / "error.txt").write_text(_how(status) + "\n", encoding="utf-8")
        return f"{_how(status)}; see {folder / 'log.txt'}"


def _how(status: int) -> str:
    if status == -signal.SIGKILL:
        return "killed (SIGKILL: by hand, or no memory left)"
    if status < 0:
        return f"killed ({signal.Signals(-status).name})"
    return f"ended with status {status}"


def _stop(running: dict[subprocess.Popen, tuple[Path, list[int]]]) -> None:
    for process in running:
        process.terminate()
    deadline = time.monotonic() + _GRACE_SECONDS
    for process in running:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def _shares(jobs: int) -> list[list[int]]:
    """The cores dealt to the jobs, neighbours together; what does not divide goes to the first."""
    cores = _cores()
    size, more = divmod(len(cores), jobs)
    starts = [i * size + min(i, more) for i in range(jobs + 1)]
    return [cores[a:b] for a, b in zip(starts, starts[1:], strict=False)]


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt inside, so that the workers are ended first."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
