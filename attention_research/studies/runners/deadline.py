"""A time at which a run of trials must be over: what still starts before it, and when the running trials must stop.

A trial that trains is asked to stop some time before the end (`attempts.ask_to_pause`). It saves a checkpoint and goes
on from there next time. What cannot be saved (an evaluation, a measurement) may go on until the end, then it is ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

#: How long before the end trials are asked to stop, and how much of that is kept for writing tables and figures.
_ASK_SECONDS = 90.0
_WRITE_SECONDS = 30.0
#: The largest parts of the whole time that these may be.
_ASK_PART = 0.15
_WRITE_PART = 0.05


class Deadline:
    """`seconds` from now. `needs(folder)` is the least time in which the trial in that folder gets somewhere."""

    def __init__(
        self,
        seconds: float,
        needs: Callable[[Path], float] = lambda folder: 0.0,
        now: Callable[[], float] = time.monotonic,
    ):
        self.now, self.needs = now, needs
        self.end = now() + seconds
        self.asks_for = min(_ASK_SECONDS, _ASK_PART * seconds)
        self.writes_for = min(_WRITE_SECONDS, _WRITE_PART * seconds)

    def left(self) -> float:
        """Seconds until trials are asked to stop; 0 when it is time."""
        return max(0.0, self.end - self.asks_for - self.now())

    def over(self) -> bool:
        """Whether a trial that still runs must be ended."""
        return self.now() >= self.end - self.writes_for

    def fits(self, folder: Path) -> bool:
        """Whether it is worth starting the trial in this folder."""
        left = self.left()
        return left > 0 and self.needs(folder) <= left
