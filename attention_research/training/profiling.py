"""Profiles some steps of a run with the JAX profiler, for XProf in TensorBoard or https://ui.perfetto.dev."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax


class Profile:
    """Writes a profile of the steps `first` to `last` to `workdir/profile`. If `steps` is None, nothing is profiled.

    Steps count from 1, as in the log. Choose steps whose batch shapes have occurred before, because a step with a new
    shape spends most of its time in compilation.
    """

    def __init__(self, workdir: Path, steps: tuple[int, int] | None):
        self.folder = workdir / "profile"
        self.first, self.last = steps or (0, 0)
        self.running = False

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
