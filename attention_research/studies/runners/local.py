"""Runs trials as processes of this machine, each on its own share of the cores and accelerators."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from attention_research.studies.runners.machine import cores, device_environments, shares
from attention_research.studies.runners.supervision import Ending, ending, start

_GRACE_SECONDS = 10.0


class LocalExecutor:
    """Runs ``jobs`` trials at a time (by default one), at most as many as there are cores."""

    def __init__(self, jobs: int | None = None):
        self.jobs = max(1, min(jobs or 1, len(cores())))
        self.slots = list(zip(shares(cores(), self.jobs), device_environments(self.jobs), strict=True))
        self.running: list[_Trial] = []

    def open(self, workdir: Path) -> None:
        """Does nothing: the machine needs no preparation."""

    def start(self, folder: Path) -> _Trial:
        """Starts a trial on a free share of the machine."""
        trial = _Trial(self, folder, self.slots.pop(0))
        self.running.append(trial)
        return trial

    def close(self) -> None:
        """Terminates the running trials, and kills those that do not end within `_GRACE_SECONDS`."""
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
    def __init__(self, executor: LocalExecutor, folder: Path, slot: tuple[list[int], dict[str, str]]):
        self.executor, self.folder, self.slot = executor, folder, slot
        self.process = start(folder, cores=slot[0], environment=slot[1])

    def begun(self) -> bool:
        """True: the process starts at once."""
        return True

    def ending(self) -> Ending | None:
        """How the trial ended, or None. Frees its share when it has ended."""
        if self.process.poll() is None:
            return None
        self.executor.running.remove(self)
        self.executor.slots.append(self.slot)
        return ending(self.folder, self.process.returncode)
