"""Numbers the attempts at a trial, so that only the newest attempt works in its folder.

A runner may count a node as lost and start its trial elsewhere, while the first process still runs, for example behind
a broken network connection. Each start takes the next number by creating ``attempts/N.json``, which the file system
allows only once. A process that sees a later number than its own exits at once and writes nothing in the folder.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from attention_research.errors import RunError
from attention_research.training.interruption import Stop
from attention_research.training.workdir import LOCK, write_text, writing

#: Exit status of an attempt that found a later one (EX_TEMPFAIL of sysexits.h).
SUPERSEDED = 75
#: A file with this name in a trial's folder asks the trial to stop.
STOP = "stop.json"
_LOOK_SECONDS = 0.2
#: Seconds for which an attempt waits for the lock of earlier attempts. NFS keeps the lock of a dead client for 90 s.
PATIENCE_SECONDS = 120.0


class Attempt:
    """The right of a process to work in a trial's folder. `begin` takes it, and watches for a later attempt."""

    def __init__(self, folder: Path, number: int):
        self.folder, self.number = folder, number
        self.asked = False

    @classmethod
    def begin(cls, folder: Path) -> Attempt:
        """Starts the next attempt at this trial. Returns when earlier attempts have released the folder.

        Raises RunError if they hold it for more than `PATIENCE_SECONDS`.
        """
        place = folder / "attempts"
        said = json.dumps({"host": socket.gethostname(), "process": os.getpid(), "began": time.time()})
        with writing(place):
            place.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(1 + max((int(path.stem) for path in place.glob("*.json")), default=0)):
            try:
                with writing(place / f"{number}.json"), open(place / f"{number}.json", "x", encoding="utf-8") as file:
                    file.write(said)
            except RunError as error:
                if isinstance(error.__cause__, FileExistsError):
                    continue
                raise
            attempt = cls(folder, number)
            threading.Thread(target=attempt._watch, daemon=True).start()
            attempt._wait_for_the_others()
            return attempt
        raise AssertionError  # unreachable: the loop has no end

    def is_newest(self) -> bool:
        """Whether no other attempt has started after this one."""
        return not (self.folder / "attempts" / f"{self.number + 1}.json").exists()

    def ends(self, seconds: float) -> None:
        """Writes the working time of this attempt, which `spent` adds up."""
        path = self.folder / "attempts" / f"{self.number}.json"
        with suppress(OSError, RunError):  # a missing time must not fail the trial
            write_text(path, json.dumps({**json.loads(path.read_text(encoding="utf-8")), "seconds": seconds}))

    def leave_if_superseded(self) -> None:
        """Exits with status `SUPERSEDED` if there is a later attempt. Call it before writing a result."""
        if not self.is_newest():
            print(f"attempt {self.number}: a later one has this trial; leaving", file=sys.stderr, flush=True)
            os._exit(SUPERSEDED)

    def stopped(self) -> dict[str, Any] | None:
        """The request to stop this trial, or None.

        After {"reason": ...} the trial ends here, and its result gives the reason. With "again": true it saves a
        checkpoint, and the next attempt continues from there.
        """
        try:
            return json.loads((self.folder / STOP).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def _watch(self) -> None:
        while True:
            self.leave_if_superseded()
            handler = signal.getsignal(signal.SIGTERM)
            saves = isinstance(getattr(handler, "__self__", None), Stop)  # training, which saves on SIGTERM
            if saves and not self.asked and (self.folder / STOP).exists():
                self.asked = True
                os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(_LOOK_SECONDS)

    def _wait_for_the_others(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        with writing(self.folder / LOCK):
            file = (self.folder / LOCK).open("a")
        with file:
            while True:
                try:
                    return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise RunError(
                            f"{self.folder}: {_where(self.folder, self.number - 1)} still holds it; end that process "
                            "and rerun the same command"
                        ) from None
                time.sleep(_LOOK_SECONDS)


def ask_to_pause(folder: Path) -> None:
    """Asks a trial to save a checkpoint and stop. It stays unfinished, and the next attempt continues it.

    Works from every machine that sees the folder. `trial_folders.Folder.prepare` withdraws the request.
    """
    write_text(folder / STOP, json.dumps({"reason": "the time is over", "again": True}))


def attempts(folder: Path) -> int:
    """The number of times that a trial was started."""
    return sum(1 for _ in (folder / "attempts").glob("*.json"))


def spent(folder: Path) -> float:
    """The total working time of the attempts at a trial, in seconds, without attempts that were killed."""
    return sum(_told(path).get("seconds", 0.0) for path in (folder / "attempts").glob("[0-9]*.json"))


def _where(folder: Path, number: int) -> str:
    before = _told(folder / "attempts" / f"{number}.json")
    return f"attempt {number} (process {before['process']} on {before['host']})" if before else "another process"


def _told(path: Path) -> dict[str, Any]:
    """The content of an attempt's file, or {} if a full disk or a kill left it incomplete."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
