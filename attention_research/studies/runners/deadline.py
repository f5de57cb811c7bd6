"""A deadline for running trials: which trials may still start, and when running trials must stop.

Some time before the end, a training is asked to stop (`attempts.ask_to_pause`). It saves a checkpoint and continues
from there the next time. Stages that cannot be saved (an evaluation, a measurement) may run until shortly before the
end and are then killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

#: Trials are asked to stop this long before the end. The last part of that time is kept to write tables and figures.
_ASK_SECONDS = 90.0
_WRITE_SECONDS = 30.0
#: The largest shares of the whole time for these two.
_ASK_PART = 0.15
_WRITE_PART = 0.05


class Deadline:
    """A deadline in `seconds` seconds. `needs(folder)` is the shortest time for which it is worth starting a trial."""

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
        """The seconds until trials are asked to stop; 0 from that time on."""
        return max(0.0, self.end - self.asks_for - self.now())

    def over(self) -> bool:
        """Whether trials that still run must be ended now."""
        return self.now() >= self.end - self.writes_for

    def fits(self, folder: Path) -> bool:
        """Whether it is worth starting the trial in this folder."""
        left = self.left()
        return left > 0 and self.needs(folder) <= left
