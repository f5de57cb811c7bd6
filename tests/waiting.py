"""Waiting for what another process does."""

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], bool], seconds: float = 400.0, every: float = 0.05) -> None:
    """Until the condition holds; fails where it does not within so many seconds (the caller's line says which)."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s"
        time.sleep(every)
