"""Progress of a run on standard error: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from attention_research.training.clock import Clock


class Progress:
    """Shows steps/s, tokens/s, the loss and the time left. Without a terminal, `report` receives one line every `every`
    seconds.

    The speed is that since the last update, without the first step of each shape, which is mostly compilation. It
    includes evaluations and checkpoints.
    """

    def __init__(self, steps: int, report: Callable[[str], None], every: float = 15.0):
        self.steps, self.report, self.every = steps, report, every
        self.said = time.perf_counter()
        self.previous = (self.said, 0, 0.0)  # seconds without compilation, steps, tokens
        self.rate = 0.0
        self.bar = None
        if sys.stderr.isatty():
            columns = (
                TextColumn("step"), MofNCompleteColumn(), BarColumn(),
                TextColumn("loss {task.fields[loss]:.3f}  {task.fields[rate]:.1f} steps/s"),
                TextColumn("{task.fields[tokens]:,.0f} tokens/s"), TextColumn("left {task.fields[left]}"),
            )  # fmt: skip
            self.bar = Bar(*columns, console=Console(stderr=True))
            self.task = self.bar.add_task("train", total=steps, loss=float("nan"), rate=0.0, tokens=0.0, left="-:--")
            self.bar.start()

    def update(self, step: int, loss: float, clock: Clock) -> None:
        """Updates the display when metrics are logged."""
        now = time.perf_counter()
        current = (now - clock.compile_seconds, clock.timed, clock.counted)
        elapsed, steps, tokens = (new - old for new, old in zip(current, self.previous, strict=True))
        speed = tokens / max(elapsed, 1e-9)
        self.rate = steps / max(elapsed, 1e-9) if steps else self.rate  # else only the first steps of their shapes
        self.previous = current
        left = _minutes((self.steps - step) / self.rate) if self.rate else "-:--"
        if self.bar is not None:
            self.bar.update(self.task, completed=step, loss=loss, rate=self.rate, tokens=speed, left=left)
        elif now - self.said > self.every or step == self.steps:
            self.said = now
            speeds = f"{self.rate:.1f} steps/s  {speed:,.0f} tokens/s"
            self.report(f"step {step}/{self.steps}  loss {loss:.3f}  {speeds}  left {left}")

    def validated(self, step: int, scores: Mapping[str, Sequence[float]]) -> None:
        """Prints the scores of a validation, name -> one number for each replica, as means over the replicas."""
        said = "  ".join(f"{name} {fmean(values):.4g}" for name, values in scores.items() if name != "tokens")
        self.report(f"step {step}/{self.steps}  validation  {said}")

    def close(self) -> None:
        """Ends the live bar."""
        if self.bar is not None:
            self.bar.stop()


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
