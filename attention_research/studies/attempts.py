"""Attempts at a trial, numbered in its folder: only the newest one may work there.

A node may be given up for lost and its trial be started elsewhere while the first process lives on, behind a cable that
was pulled or asleep, and come back later. Each start takes the next number by creating ``attempts/N.json``, which the
file system grants once; a process that sees a later number than its own leaves at once, without a word in the folder.
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
from attention_research.training.workdir import write_text

#: Exit status of an attempt that found a later one (EX_TEMPFAIL of sysexits.h).
SUPERSEDED = 75
#: Written into a trial's folder to have it stop where it is and say so in its result.
STOP = "stop.json"
_LOOK_SECONDS = 0.2
#: How long an attempt waits for the locks of those before it; NFS keeps a dead client's for 90 seconds.
PATIENCE_SECONDS = 120.0


class Attempt:
    """A process's right to work in a trial's folder. `begin` takes it, and watches for the one who takes it next."""

    def __init__(self, folder: Path, number: int):
        self.folder, self.number = folder, number
        self.asked = False

    @classmethod
    def begin(cls, folder: Path) -> Attempt:
        """The next attempt at this trial; returns once those before it have let the folder go."""
        place = folder / "attempts"
        place.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(1 + max((int(path.stem) for path in place.glob("*.json")), default=0)):
            try:
                with open(place / f"{number}.json", "x", encoding="utf-8") as file:
                    json.dump({"host": socket.gethostname(), "process": os.getpid(), "began": time.time()}, file)
            except FileExistsError:
                continue
            attempt = cls(folder, number)
            threading.Thread(target=attempt._watch, daemon=True).start()
            attempt._wait_for_the_others()
            return attempt
        raise AssertionError  # the numbers do not end

    def is_newest(self) -> bool:
        """Whether no other attempt began after this one."""
        return not (self.folder / "attempts" / f"{self.number + 1}.json").exists()

    def ends(self, seconds: float) -> None:
        """Notes how long this attempt has worked, for `spent`."""
        path = self.folder / "attempts" / f"{self.number}.json"
        with suppress(OSError, RunError):  # an attempt's own note is worth no failure
            write_text(path, json.dumps({**json.loads(path.read_text(encoding="utf-8")), "seconds": seconds}))

    def leave_if_superseded(self) -> None:
        """Ends the process if there is a later attempt: before anything is written that counts."""
        if not self.is_newest():
            print(f"attempt {self.number}: a later one has this trial; leaving", file=sys.stderr, flush=True)
            os._exit(SUPERSEDED)

    def stopped(self) -> dict[str, Any] | None:
        """The request to stop this trial; None if there is none.

        {"reason": ...}: the trial ends here, and its result says so. With "again": true it saves and goes on next time.
        """
        try:
            return json.loads((self.folder / STOP).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def _watch(self) -> None:
        while True:
            self.leave_if_superseded()
            handler = signal.getsignal(signal.SIGTERM)
            saves = isinstance(getattr(handler, "__self__", None), Stop)  # training, which ends with a checkpoint
            if saves and not self.asked and (self.folder / STOP).exists():
                self.asked = True
                os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(_LOOK_SECONDS)

    def _wait_for_the_others(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        with (self.folder / ".lock").open("a") as file:
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
    """Has a trial stop at its next checkpoint, to go on from there at the next attempt: it is not finished.

    Works on every machine that sees the folder. `trials.Folder.prepare` takes the wish back.
    """
    write_text(folder / STOP, json.dumps({"reason": "the time is over", "again": True}))


def attempts(folder: Path) -> int:
    """How often a trial was started."""
    return sum(1 for _ in (folder / "attempts").glob("*.json"))


def spent(folder: Path) -> float:
    """Seconds that attempts at a trial have worked; those that were killed are not counted."""
    told = (json.loads(path.read_text(encoding="utf-8")) for path in (folder / "attempts").glob("[0-9]*.json"))
    return sum(one.get("seconds", 0.0) for one in told)


def _where(folder: Path, number: int) -> str:
    try:
        before = json.loads((folder / "attempts" / f"{number}.json").read_text(encoding="utf-8"))
        return f"attempt {number} (process {before['process']} on {before['host']})"
    except (OSError, ValueError, KeyError):
        return "another process"
