"""A profile of some steps of a run, by JAX's profiler, for TensorBoard's XProf or https://ui.perfetto.dev."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax


class Profile:
    """The steps `first` to `last` of this process, counted from 1 as in the log, into `workdir/profile`; None: no step.

    A step that compiles is worth no profile: take one of the shapes that came before.
    """

    def __init__(self, workdir: Path, steps: tuple[int, int] | None):
        self.folder = workdir / "profile"
        self.first, self.last = steps or (0, 0)
        self.running = False

    def before(self, step: int) -> None:
        """Starts before the first of them."""
        if step == self.first:
            jax.profiler.start_trace(str(self.folder), create_perfetto_trace=True)
            self.running = True

    def after(self, step: int, metrics: Any) -> None:
        """Ends after the last of them, when the devices have."""
        if self.running and step == self.last:
            jax.block_until_ready(metrics)
            self.close()

    def close(self) -> None:
        """Ends it where it runs still."""
        if self.running:
            self.running = False
            jax.profiler.stop_trace()
