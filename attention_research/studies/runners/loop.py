"""The loop of every runner: starts trials while there is room, watches them, and retries those that were killed.

The loop uses one thread. If a trial fails, the others continue. An interrupt (Ctrl-C, SIGTERM) stops all trials and is
raised again. With a `Deadline` the loop ends in time, and unfinished trials count neither as done nor as failed.
"""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from attention_research.studies.attempts import ask_to_pause
from attention_research.studies.runners.deadline import Deadline
from attention_research.studies.runners.supervision import Ending, given_up
from attention_research.studies.trial_folders import read_result

#: report(folder, state, line): state is "running", "retrying", "done" or "failed"; with a deadline also "stopped"
#: (the trial continues the next time) and "left" (not started).
Report = Callable[[Path, str, str], None]

RETRIES = 2
_POLL_SECONDS = 0.1
#: Seconds after which a network file system must show a file that was written on another machine.
_SHOWN_WITHIN_SECONDS = 30.0
_NO_TIME = "goes on next time: the time is over"
_END: Any = object()


class Terminated(KeyboardInterrupt):
    """Raised for SIGTERM, as KeyboardInterrupt is for Ctrl-C."""


def signal_of(stop: KeyboardInterrupt) -> int:
    """The number of the signal that raised this."""
    return signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT


class Attempted(Protocol):
    """A trial that an executor has started."""

    def begun(self) -> bool:
        """Whether its process has started. False for a trial that waits in the queue of a cluster."""

    def ending(self) -> Ending | None:
        """How the trial ended, or None if it has not ended."""


class Executor(Protocol):
    """Runs trials on some machines. `jobs` is the largest number at a time (None: as many as the cluster takes)."""

    jobs: int | None

    def open(self, workdir: Path) -> None:
        """Prepares the executor. Raises RunError if the cluster is not available or does not see the study's folder."""

    def start(self, folder: Path) -> Attempted:
        """Starts a trial, or puts it into the cluster's queue."""

    def close(self) -> None:
        """Ends the running trials and releases resources."""


def run(
    executor: Executor,
    folders: Iterable[Path | None],
    workdir: Path,
    report: Report,
    tick: Callable[[], None] = lambda: None,
    *,
    retries: int = RETRIES,
    deadline: Deadline | None = None,
) -> dict[Path, str]:
    """Runs the trials in these folders. Returns folder -> "done" or the error line.

    The next folder is requested only when there is room for it; ``folders`` yields None if none is ready yet. ``tick``
    is called about ten times a second. A trial that is killed is retried ``retries`` times. Trials that the
    ``deadline`` stops or does not start are not in the returned dictionary.
    """
    coming = iter(folders)
    again: deque[Path] = deque()
    at_work: dict[Path, Attempted] = {}
    shown: set[Path] = set()
    unseen: dict[Path, float] = {}
    kills: dict[Path, int] = {}
    outcome: dict[Path, str] = {}
    asked: set[Path] = set()
    with terminate_as_interrupt(), closing(executor):
        executor.open(workdir)
        while True:
            folder = None
            if deadline is not None and not deadline.left():
                folder = _END
                for late in at_work.keys() - asked:
                    ask_to_pause(late)
                    asked.add(late)
                if deadline.over():
                    for late in at_work:
                        report(late, "stopped", _NO_TIME)
                    return outcome
            while folder is not _END and (executor.jobs is None or len(at_work) < executor.jobs):
                folder = again.popleft() if again else next(coming, _END)
                if folder is None or folder is _END:
                    break
                if deadline is not None and not deadline.fits(folder):
                    report(folder, "left", "")
                    continue
                at_work[folder] = executor.start(folder)
            if folder is _END and not at_work:
                return outcome
            for folder, trial in list(at_work.items()):
                ended = Ending("done") if folder in unseen else trial.ending()
                if folder not in shown and (ended or trial.begun()):
                    shown.add(folder)
                    report(folder, "running", "")
                if ended is None:
                    continue
                if ended.state == "done" and read_result(folder) is None:
                    if time.monotonic() < unseen.setdefault(folder, time.monotonic() + _SHOWN_WITHIN_SECONDS):
                        continue
                    ended = Ending("killed", "it is done where it ran, but its result is not to be seen here")
                unseen.pop(folder, None)
                del at_work[folder]
                shown.discard(folder)
                if ended.state == "killed" and folder in asked:
                    report(folder, "stopped", _NO_TIME)
                elif ended.state == "killed" and kills.get(folder, 0) < retries:
                    kills[folder] = kills.get(folder, 0) + 1
                    again.append(folder)
                    report(folder, "retrying", f"{ended.line}; starts again from its last checkpoint")
                elif ended.state == "done":
                    outcome[folder] = "done"
                    report(folder, "done", "")
                else:
                    outcome[folder] = given_up(folder, ended.line) if ended.state == "killed" else ended.line
                    report(folder, "failed", outcome[folder])
            tick()
            time.sleep(_POLL_SECONDS)


@contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """A context in which SIGTERM raises `Terminated`, so that the workers are ended first."""

    def interrupt(number: int, frame: object) -> None:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
