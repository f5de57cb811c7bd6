"""SIGTERM and Ctrl-C: a run that is asked to stop saves what it has and says how to continue."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)
_TOGETHER_SECONDS = 1.0
_AT_ONCE = "stopped at once; the same command continues from the last checkpoint"


class Interrupted(SystemExit):
    """The process was asked to stop and may: nobody who catches errors catches it, and its exit status is the shell's
    for the signal, 128 + its number (143 for SIGTERM, 130 for Ctrl-C)."""

    def __init__(self, number: int, line: str):
        super().__init__(128 + number)
        self.line = f"{signal.Signals(number).name}: {line}"


class Stop:
    """What the signals have asked for.

    Where `patient` is false the first one ends the process at once, since nothing would be saved; if a library catches
    the exception, `leave` raises it again. Where `patient` is true, the first one only sets `number`, for the loop to
    see after its step, and a second one ends at once. What comes within a second is the same wish: a scheduler tells a
    job's processes and their supervisor, who passes it on.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.patient = False
        self.first = 0.0

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The signals' handler."""
        again = self.number is not None
        if again and time.monotonic() - self.first < _TOGETHER_SECONDS:
            return
        self.number, self.first = number, time.monotonic()
        if again or not self.patient:
            raise Interrupted(number, _AT_ONCE)

    def leave(self, line: str = _AT_ONCE) -> None:
        """Raises Interrupted where a signal has come."""
        if self.number is not None:
            raise Interrupted(self.number, line)


@contextmanager
def stopping(report: Callable[[str], None]) -> Iterator[Stop]:
    """The signals' wishes while the block runs; an Interrupted that leaves it is reported, in one line."""
    stop = Stop()
    mine = threading.current_thread() is threading.main_thread()  # elsewhere Python installs no handler
    before = {number: signal.signal(number, stop.handle) for number in SIGNALS} if mine else {}
    try:
        yield stop
    except Interrupted as interrupted:
        report(interrupted.line)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
