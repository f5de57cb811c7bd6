"""SIGTERM and Ctrl-C from the program's first line on, before a command takes them over (`training.interruption`).

Python raises KeyboardInterrupt wherever it happens to be. Inside an import a library may catch it and go on, so the
process ends at once there: an import has nothing to save.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_IMPORT = "<frozen importlib"


def handle(number: int, frame: FrameType | None) -> None:
    """Ends the process with 128 + the signal's number and one line; Ctrl-C outside imports is a KeyboardInterrupt."""
    if number == signal.SIGINT and not _importing(frame):
        raise KeyboardInterrupt
    line = f"{signal.Signals(number).name}: stopped; rerun the same command to continue\n"
    os.write(2, line.encode())
    os._exit(128 + number)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(_IMPORT):
            return True
        frame = frame.f_back
    return False


@contextmanager
def handled() -> Iterator[None]:
    """The handlers while the block runs; in a thread other than the main one Python installs none."""
    mine = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)} if mine else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
