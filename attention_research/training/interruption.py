"""Handles SIGTERM and Ctrl-C: the run saves a checkpoint and reports how to continue."""

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
    """The process stops because of a signal.

    It is a SystemExit, so `except Exception` does not catch it. Its exit status is 128 + the number of the signal, as
    in a shell (143 for SIGTERM, 130 for Ctrl-C).
    """

    def __init__(self, number: int, line: str):
        super().__init__(128 + number)
        self.line = f"{signal.Signals(number).name}: {line}"


class Stop:
    """Records signals that ask the process to stop.

    While `patient` is false, there is nothing to save yet, and the first signal ends the process at once. If a library
    catches the exception, `leave` raises it again. While `patient` is true, the first signal only sets `number`, which
    the loop reads after its step, and a second signal ends the process at once. Signals within one second count as one,
    because a scheduler may send a signal to the processes of a job and to their supervisor, which forwards it.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.patient = False
        self.first = 0.0

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        again = self.number is not None
        if again and time.monotonic() - self.first < _TOGETHER_SECONDS:
            return
        self.number, self.first = number, time.monotonic()
        if again or not self.patient:
            raise Interrupted(number, _AT_ONCE)

    def leave(self, line: str = _AT_ONCE) -> None:
        """Raises Interrupted if a signal has arrived."""
        if self.number is not None:
            raise Interrupted(self.number, line)


@contextmanager
def stopping(report: Callable[[str], None]) -> Iterator[Stop]:
    """Installs the signal handlers for the block and yields the `Stop`. Reports an Interrupted of the block in one
    line."""
    stop = Stop()
    mine = threading.current_thread() is threading.main_thread()  # Python allows handlers only there
    before = {number: signal.signal(number, stop.handle) for number in SIGNALS} if mine else {}
    try:
        yield stop
    except Interrupted as interrupted:
        report(interrupted.line)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
