"""Shows the progress of a study on standard error: a live table on a terminal, plain lines elsewhere.

The state of a trial is read from its folder: ``progress.json`` (the stage, and for a fine-tuning its name, steps and
folder) and the last line of ``metrics.jsonl``.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from attention_research.studies.trial_folders import Folder
from attention_research.studies.trials import Trial
from attention_research.training.metrics_log import logged

_DOING = {
    "train": "training",
    "evaluate": "evaluating",
    "measure": "measuring",
    "finetune": "fine-tuning",
    "floors": "measuring",
}
_TRAINING = ("training", "fine-tuning")
_ENDED = ("done", "failed", "stopped", "left")
_LINE_SECONDS = 20.0
_READ_SECONDS = 1.0
_TAIL_BYTES = 8192


@dataclasses.dataclass
class State:
    """The displayed state of a trial. `tuning` is the content of progress.json during a fine-tuning, otherwise {}."""

    trial: Trial
    state: str = "waiting"
    step: int | None = None
    loss: float | None = None
    tokens_per_second: float | None = None
    since: tuple[float, int] | None = None
    tuning: dict = dataclasses.field(default_factory=dict)

    @property
    def steps(self) -> int | None:
        """The number of steps of the current training or fine-tuning."""
        return self.tuning.get("steps", self.trial.steps)

    @staticmethod
    def doing(stage: dict) -> str:
        """The state of a trial with this content of progress.json."""
        return " ".join([_DOING.get(stage["stage"], stage["stage"]), *([stage["name"]] if "name" in stage else [])])

    def begins(self, stage: dict) -> None:
        """Updates the state from the content of progress.json. A new fine-tuning restarts the count of steps."""
        ended = self.state in (*_ENDED, "retrying")
        tuning = stage if "folder" in stage and not ended else {}
        if tuning != self.tuning:
            self.tuning, self.step, self.loss, self.since = tuning, None, None, None
        if not ended:
            self.state = self.doing(stage)

    def left(self) -> float | None:
        """The remaining seconds of training, from the speed since this process started watching; None if unknown."""
        if self.state.split(" ")[0] not in _TRAINING or self.since is None or not self.step or self.steps is None:
            return None
        began, first = self.since
        done = self.step - first
        return (time.monotonic() - began) / done * (self.steps - self.step) if done > 0 else None

    def cells(self) -> list[str]:
        """The texts of row, seed, state, step, loss, tokens/s and remaining time."""
        left = self.left()
        return [
            self.trial.name if self.trial.point is None else f"{self.trial.name} at {self.trial.point:,}",
            str(self.trial.seed),
            self.state,
            "" if self.step is None or self.steps is None else f"{self.step}/{self.steps}",
            "" if self.loss is None else f"{self.loss:.2f}",
            "" if self.tokens_per_second is None else f"{self.tokens_per_second:,.0f}",
            "" if left is None else f"{int(left) // 60}:{int(left) % 60:02d}",
        ]


class Progress:
    """A context manager that shows the trials of a study. A runner calls ``report`` and ``tick``."""

    def __init__(self, trials: list[Trial], folder: Folder, done: set[str], out: TextIO | None = None):
        self.out = out or sys.stderr
        self.folder = folder
        self.states = {folder.trial(t): State(t, "done" if t.id in done else "waiting") for t in trials}
        self.live: Any = None
        self._read = self._printed = 0.0

    def __enter__(self) -> Progress:
        if self.out.isatty():
            from rich.console import Console
            from rich.live import Live

            self.live = Live(console=Console(file=self.out), auto_refresh=False, transient=False)
            self.live.start()
        self._printed = time.monotonic()
        return self

    def __exit__(self, *error: object) -> None:
        if self.live:
            self._draw()
            self.live.stop()

    def add(self, trial: Trial, folder: Path | None = None) -> None:
        """Adds a waiting trial. `folder` is its folder, by default the trial's own."""
        self.states[folder or self.folder.trial(trial)] = State(trial)

    def report(self, folder: Path, state: str, line: str) -> None:
        """Shows the new state of a trial, one of those of `runners.loop`."""
        shown = self.states[folder]
        shown.state = "starting" if state == "running" else state
        self._update(folder, shown)
        text = "  ".join(filter(None, [*shown.cells()[:2], shown.state, *_labelled(shown), line]))
        if self.live is None:
            print(text, file=self.out, flush=True)
        elif line:
            self.live.console.print(text, markup=False, highlight=False)

    def tick(self) -> None:
        """Reads the running trials, at most once a second, and shows them."""
        now = time.monotonic()
        if now - self._read < _READ_SECONDS:
            return
        self._read = now
        for folder, shown in self.states.items():
            if shown.state not in ("waiting", *_ENDED):
                self._update(folder, shown)
        if self.live:
            self._draw()
        elif now - self._printed >= _LINE_SECONDS:
            self._printed = now
            for shown in self.states.values():
                if shown.state.split(" ")[0] in _DOING.values():
                    print("  ".join(filter(None, [*shown.cells()[:3], *_labelled(shown)])), file=self.out, flush=True)

    def _update(self, folder: Path, shown: State) -> None:
        try:
            shown.begins(json.loads((folder / "progress.json").read_text(encoding="utf-8")))
        except (OSError, ValueError):
            pass
        entry = last_entry(folder / shown.tuning.get("folder", "") / "metrics.jsonl")
        if entry:
            shown.step, shown.loss = entry["step"], entry.get("loss")
            shown.tokens_per_second = entry.get("tokens_per_second", shown.tokens_per_second)
            if shown.since is None:
                shown.since = (time.monotonic(), entry["step"])

    def _draw(self) -> None:
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for title in ("row", "seed", "state"):
            table.add_column(title)
        for title in ("step", "loss", "tokens/s", "left"):
            table.add_column(title, justify="right")
        for cells in merged([shown.cells() for shown in self.states.values()]):
            table.add_row(*map(escape, cells))
        self.live.update(table, refresh=True)


def merged(lines: list[list[str]]) -> list[list[str]]:
    """The lines with consecutive waiting or finished seeds of the same row merged into one line, as ``0,1``."""
    found: list[list[str]] = []
    for cells in lines:
        last = found[-1] if found else None
        if last and last[0] == cells[0] and last[2] == cells[2] and cells[2] in ("waiting", "done"):
            last[1] = f"{last[1]},{cells[1]}"
            last[3:] = cells[3:]
        else:
            found.append(list(cells))
    return found


def last_entry(metrics: Path) -> dict | None:
    """The last complete training entry of a ``metrics.jsonl``, or None."""
    entries = last_entries(metrics)
    return entries[-1] if entries else None


def last_entries(metrics: Path) -> list[dict]:
    """The last complete training entries of a ``metrics.jsonl``: those of its last 8 KiB, or more if these do not hold
    all entries of the last step, of which replicas write one each."""
    size = _TAIL_BYTES
    while True:
        try:
            with open(metrics, "rb") as file:
                start = max(0, file.seek(0, 2) - size)
                file.seek(start)
                tail = file.read()
        except OSError:
            return []
        lines = map(logged, tail.split(b"\n"))  # the first line may be cut, and the last may be incomplete
        found = [entry for entry in lines if entry is not None and entry["split"] == "train"]
        if not start or (found and found[0]["step"] < found[-1]["step"]):
            return found
        size *= 4


def _labelled(shown: State) -> list[str]:
    _, _, _, step, loss, tokens, left = shown.cells()
    labels = (("step", step), ("loss", loss), ("tokens/s", tokens), ("left", left))
    return [f"{label} {text}" for label, text in labels if text]
