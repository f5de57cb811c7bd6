"""Whether a run has ended before its last step, by `training.stop_at`."""

from __future__ import annotations

import math
from pathlib import Path

from attention_research.training.metrics_log import read_metrics


def has_ended(workdir: Path, stop_at: float | None, stop_by: str, stop_checks: int) -> bool:
    """Whether the last `stop_checks` validations in the log are as good as `stop_at` asks."""
    return stop_at is not None and reached(workdir, stop_at, stop_by) >= stop_checks


def reached(workdir: Path, stop_at: float | None, stop_by: str) -> int:
    """The number of validations at the end of the log whose `stop_by` is at least `stop_at`, in all replicas.

    A number that is missing, NaN or infinite is not good enough.
    """
    if stop_at is None:
        return 0
    scores: dict[int, list[float]] = {}
    for line in read_metrics(workdir):
        if line["split"] == "validation":
            value = line.get(stop_by)
            scores.setdefault(line["step"], []).append(math.nan if value is None else value)
    good = [all(score >= stop_at for score in found) for _, found in sorted(scores.items(), reverse=True)]
    return good.index(False) if False in good else len(good)
