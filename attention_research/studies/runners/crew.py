"""The loop of every runner: starts trials while there is room, watches them, tries again what was killed.

One thread; a trial that fails is reported and the others go on; an interrupt (Ctrl-C, SIGTERM) stops all and is raised.
With a `Deadline` the loop ends in time: what has not finished by then is neither done nor failed.
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
from attention_research.studies.trials import read_result

#: report(folder, state, line): state is "running", "retrying", "done" or "failed"; with a deadline also "stopped" (it
#: goes on next time) and "left" (not started).
Report = Callable[[Path, str, str], None]

RETRIES = 2
_POLL_SECONDS = 0.1
#: How long a network file system may take to show here what was written elsewhere.
_SHOWN_WITHIN_SECONDS = 30.0
_NO_TIME = "goes on next time: the time is over"
_END: Any = object()


class Terminated(KeyboardInterrupt):
    """SIGTERM, where Ctrl-C would raise KeyboardInterrupt."""


class Attempted(Protocol):
    """A trial that was handed on."""

    def begun(self) -> bool:
        """Whether it runs already, or has ended; one that waits in a cluster's queue does not."""

    def ending(self) -> Ending | None:
        """How it ended; None while it has not."""


class Crew(Protocol):
    """Where trials run. `jobs` at a time, None: as many as the cluster takes."""

    jobs: int | None

    def open(self, workdir: Path) -> None:
        """Gets ready. Raises RunError where the cluster cannot be had, or does not see the study's folder."""

    def start(self, folder: Path) -> Attempted:
        """Hands a trial on."""

    def close(self) -> None:
        """Ends what still runs, and lets go."""


def run(
    crew: Crew,
    folders: Iterable[Path | None],
    workdir: Path,
    report: Report,
    tick: Callable[[], None] = lambda: None,
    *,
    retries: int = RETRIES,
    deadline: Deadline | None = None,
) -> dict[Path, str]:
    """Run the trials in these folders; returns folder -> "done" or the error's line.

    The next folder is asked for when there is room for it, not before; None says that there is none yet. ``tick`` is
    called about ten times a second. What the ``deadline`` stops or does not let start is not among the returned.
    """
    coming = iter(folders)
    again: deque[Path] = deque()
    at_work: dict[Path, Attempted] = {}
    shown: set[Path] = set()
    unseen: dict[Path, float] = {}
    kills: dict[Path, int] = {}
    outcome: dict[Path, str] = {}
    asked: set[Path] = set()
    with terminate_as_interrupt(), closing(crew):
        crew.open(workdir)
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
            while folder is not _END and (crew.jobs is None or len(at_work) < crew.jobs):
                folder = again.popleft() if again else next(coming, _END)
                if folder is None or folder is _END:
                    break
                if deadline is not None and not deadline.fits(folder):
                    report(folder, "left", "")
                    continue
                at_work[folder] = crew.start(folder)
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
    """SIGTERM raises `Terminated` inside, so that the workers are ended first."""

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
