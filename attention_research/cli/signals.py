"""Handles SIGTERM and Ctrl-C from the program's start until a command installs its own handlers.

Python raises KeyboardInterrupt at any point. Inside an import, a library may catch it and continue, so there the
process exits at once: an import has nothing to save. `training.interruption` handles signals during training.
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
    """Exits with one line and status 128 + the signal's number. Ctrl-C outside imports raises KeyboardInterrupt."""
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
    """Installs the handlers for the block. Does nothing outside the main thread, where Python installs no handlers."""
    mine = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)} if mine else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
