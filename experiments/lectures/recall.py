"""Recall by distance: how often a trained model writes the word that it read a given number of words before
(`data.copying`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from attention_research.training.evaluation import Trained


def by_delay(trained: Trained, *, split: str = "test", examples: int | None = None) -> dict[int, float]:
    """Maps each delay to the share of examples whose output, greedy or as configured, is exactly the target."""
    batches = trained.data.evaluation_batches(split, 64, examples=examples)
    written = trained.translations(trained.model(), batches)
    sources, references = trained.data.text(split)
    found: dict[int, list[bool]] = {}
    for number, text in written.items():
        found.setdefault(trained.data.delay(sources[number]), []).append(text == references[number])
    return {delay: float(np.mean(right)) for delay, right in sorted(found.items())}


def thirds(accuracies: dict[int, float]) -> dict[str, Any]:
    """Summarizes accuracies by delay.

    Returns "recall", the mean over all delays; "near" and "far", the means over the shortest and the longest third of
    delays; and the lists "delays" and "recalls".

    >>> thirds({0: 1.0, 2: 1.0, 4: 0.5, 6: 0.5, 8: 0.0, 10: 0.25})["far"]
    0.125
    """
    values = list(accuracies.values())
    third = max(1, len(values) // 3)
    return {
        "recall": float(np.mean(values)),
        "near": float(np.mean(values[:third])),
        "far": float(np.mean(values[-third:])),
        "delays": list(accuracies),
        "recalls": values,
    }


def measure_recall(*, workdir: Path, seed: int, examples: int | None = None, **_: Any) -> dict[str, Any]:
    """Computes `thirds` for a trained run on its test split."""
    del seed
    return thirds(by_delay(Trained(workdir), examples=examples))
