"""Waits for another process."""

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], bool], seconds: float = 400.0, every: float = 0.05) -> None:
    """Waits until the condition holds; fails after `seconds` (the traceback shows the caller's line)."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s"
        time.sleep(every)
