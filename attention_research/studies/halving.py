"""Asynchronous successive halving: stops trials early if their validation loss is not among the best so far.

Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning", arXiv:1810.05934, algorithm 2 (ASHA). Rung k is
at step `r * eta**k`, where r is the first evaluation (`training.eval_every`). Of the n losses seen at a rung, the best
floor(n / eta) continue. A trial is compared with earlier arrivals when it reaches a rung, so it never waits for others.
The paper pauses a trial and may promote it later. Here it ends, as in Optuna's `SuccessiveHalvingPruner`, which lets
the best trial so far continue while fewer than eta trials have reached the rung.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from attention_research.training.metrics_log import logged


class Halving:
    """The rungs of one search, and the position up to which the metrics of each trial were read."""

    def __init__(self, eta: int, first: int):
        self.eta, self.first = eta, first
        self.read: dict[Path, Lines] = {}

    def pruner(self) -> Any:
        """The pruner of Optuna, which stores the losses at each rung in its study."""
        from optuna.pruners import SuccessiveHalvingPruner

        return SuccessiveHalvingPruner(min_resource=self.first, reduction_factor=self.eta)

    def judge(self, asked: Any, folder: Path, steps: int) -> str | None:
        """Reports the new validation losses of the trial in this folder to Optuna.

        Returns the reason to stop the trial, or None. The last of its `steps` is not a rung, since a stop there would
        save nothing.
        """
        came = self.read.setdefault(folder, Lines(folder / "metrics.jsonl")).validation()
        known = asked.study.get_trials(deepcopy=False)[asked.number].intermediate_values if came else {}
        for step, loss in came:
            if step in known or step >= steps:  # a continued run repeats evaluations after its last checkpoint
                continue
            asked.report(loss, step)
            if asked.should_prune():
                loss = f"{loss:.3f}" if math.isfinite(loss) else "no number"
                return f"stopped early at step {step}: validation loss {loss}, not among the best 1/{self.eta} there"
        return None


class Lines:
    """Reads the new lines of a ``metrics.jsonl`` since the last call, also if the file was replaced."""

    def __init__(self, path: Path):
        self.path = path
        self.file: int | None = None
        self.end = 0

    def validation(self) -> list[tuple[int, float]]:
        """(step, loss) of the new complete lines of the validation split."""
        found = []
        for line in self._new():
            entry = logged(line)  # None for an incomplete line, from a process that was killed
            if entry is not None and entry["split"] == "validation" and "loss" in entry:
                found.append((entry["step"], entry["loss"]))
        return found

    def _new(self) -> list[bytes]:
        try:
            with open(self.path, "rb") as file:
                number = os.fstat(file.fileno()).st_ino
                if number != self.file:  # a continued run replaces the file by the lines up to its checkpoint
                    self.file, self.end = number, 0
                file.seek(self.end)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self.end += len(whole)
        return whole.splitlines()
