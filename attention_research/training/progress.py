"""Progress of a run on standard error: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar


class Progress:
    """Shows steps/s, tokens/s, the loss and the time left. Without a terminal, `report` receives one line every `every`
    seconds."""

    def __init__(self, start: int, steps: int, report: Callable[[str], None], every: float = 15.0):
        self.steps, self.report, self.every = steps, report, every
        self.started = self.said = time.perf_counter()
        self.previous = (self.started, start, 0.0)
        self.bar = None
        if sys.stderr.isatty():
            columns = (
                TextColumn("step"), MofNCompleteColumn(), BarColumn(),
                TextColumn("loss {task.fields[loss]:.3f}  {task.fields[rate]:.1f} steps/s"),
                TextColumn("{task.fields[tokens]:,.0f} tokens/s"),
                TextColumn("left"), TimeRemainingColumn(),
            )  # fmt: skip
            self.bar = Bar(*columns, console=Console(stderr=True))
            self.task = self.bar.add_task("train", total=steps, loss=float("nan"), rate=0.0, tokens=0.0)
            self.bar.start()

    def update(self, step: int, loss: float, tokens: float) -> None:
        """Updates the display when metrics are logged. `tokens` is the number of tokens trained by this process so
        far."""
        now = time.perf_counter()
        elapsed = max(now - self.previous[0], 1e-9)
        rate, speed = (step - self.previous[1]) / elapsed, (tokens - self.previous[2]) / elapsed
        self.previous = (now, step, tokens)
        if self.bar is not None:
            self.bar.update(self.task, completed=step, loss=loss, rate=rate, tokens=speed)
        elif now - self.said > self.every or step == self.steps:
            self.said = now
            left = (self.steps - step) / max(rate, 1e-9)
            self.report(
                f"step {step}/{self.steps}  loss {loss:.3f}  {rate:.1f} steps/s  {speed:,.0f} tokens/s"
                f"  left {int(left) // 60}:{int(left) % 60:02d}"
            )

    def validated(self, step: int, scores: Mapping[str, Sequence[float]]) -> None:
        """Prints the scores of a validation, name -> one number for each replica, as means over the replicas."""
        said = "  ".join(f"{name} {fmean(values):.4g}" for name, values in scores.items() if name != "tokens")
        self.report(f"step {step}/{self.steps}  validation  {said}")

    def close(self) -> None:
        """Ends the live bar."""
        if self.bar is not None:
            self.bar.stop()
