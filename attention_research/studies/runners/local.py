"""Trials as processes of this machine, a few at a time, each on its own share of the cores and the accelerators."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from attention_research.studies.runners.machine import cores, device_environments, shares
from attention_research.studies.runners.supervision import Ending, ending, start

_GRACE_SECONDS = 10.0


class LocalCrew:
    """``jobs`` trials at a time, never more than there are cores."""

    def __init__(self, jobs: int | None = None):
        self.jobs = max(1, min(jobs or 1, len(cores())))
        self.slots = list(zip(shares(cores(), self.jobs), device_environments(self.jobs), strict=True))
        self.running: list[_Trial] = []

    def open(self, workdir: Path) -> None:
        """Nothing to get ready."""

    def start(self, folder: Path) -> _Trial:
        """Starts it on a share that is free."""
        trial = _Trial(self, folder, self.slots.pop(0))
        self.running.append(trial)
        return trial

    def close(self) -> None:
        """Asks all to end, then ends them."""
        for trial in self.running:
            trial.process.terminate()
        deadline = time.monotonic() + _GRACE_SECONDS
        for trial in self.running:
            try:
                trial.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                trial.process.kill()
                trial.process.wait()


class _Trial:
    def __init__(self, crew: LocalCrew, folder: Path, slot: tuple[list[int], dict[str, str]]):
        self.crew, self.folder, self.slot = crew, folder, slot
        self.process = start(folder, cores=slot[0], environment=slot[1])

    def begun(self) -> bool:
        """At once."""
        return True

    def ending(self) -> Ending | None:
        """How it ended; its share is free then."""
        if self.process.poll() is None:
            return None
        self.crew.running.remove(self)
        self.crew.slots.append(self.slot)
        return ending(self.folder, self.process.returncode)
