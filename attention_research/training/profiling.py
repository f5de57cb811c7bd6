"""Profiles some steps of a run with the JAX profiler, for XProf in TensorBoard or https://ui.perfetto.dev."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax

from attention_research.errors import ConfigError


class Profile:
    """Writes a profile of the steps `first` to `last` to `workdir/profile`. If `steps` is None, nothing is profiled.

    Steps count from 1, as in the log. Choose steps whose batch shapes have occurred before, because a step with a new
    shape spends most of its time in compilation.
    """

    def __init__(self, workdir: Path, steps: tuple[int, int] | None):
        self.folder = workdir / "profile"
        self.first, self.last = steps or (0, 0)
        self.running = False

    def check(self, steps: int) -> None:
        """Raises ConfigError if a run of this number of steps ends before the profile begins."""
        if self.first > steps:
            raise ConfigError(f"{self._option()}: the run ends at step {steps} (training.steps)")

    def passed(self, step: int) -> str | None:
        """The line that says that a run which continues from this step does not write the profile."""
        if not 0 < self.first <= step:
            return None
        return f"{self._option()}: no profile is written, since the run continues from step {step}"

    def _option(self) -> str:
        return f"--profile={self.first}:{self.last}"

    def before(self, step: int) -> None:
        """Starts the profiler before the first step."""
        if step == self.first:
            jax.profiler.start_trace(str(self.folder), create_perfetto_trace=True)
            self.running = True

    def after(self, step: int, metrics: Any) -> None:
        """Stops the profiler after the last step, once the devices have finished it."""
        if self.running and step == self.last:
            jax.block_until_ready(metrics)
            self.close()

    def close(self) -> None:
        """Stops the profiler if it is running."""
        if self.running:
            self.running = False
            jax.profiler.stop_trace()
