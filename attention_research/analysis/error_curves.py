"""The error of a trained classifier on every split, and over its training: what "degradation" is a claim about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

SPLITS = ("train", "test")


def measure_errors(*, workdir: Path, seed: int, examples: int = 2000, **_: Any) -> dict[str, Any]:
    """ "train_error" and "test_error", shares of `examples` of either split without dropout or augmentation; "curve"
    [steps logged, (step, share of the batch that was wrong)] and "validation_curve"."""
    from attention_research.training.evaluation import Trained
    from attention_research.training.workdir import read_metrics

    del seed
    trained = Trained(workdir)
    found: dict[str, Any] = {f"{split}_error": error(trained, split, examples) for split in SPLITS}
    lines = read_metrics(workdir)
    for name, split in (("curve", "train"), ("validation_curve", "validation")):
        found[name] = [[line["step"], 1.0 - line["correct"]] for line in lines if line["split"] == split]
    return found


def error(trained: Any, split: str, examples: int) -> float:
    """The share of `examples` of a split, by a fixed permutation, whose most probable class is not theirs."""
    batches = trained.data.evaluation_batches(split, trained.evaluation.batch_size, examples=examples)
    wrong = [
        outputs["predicted"][ids >= 0] != batch["label"][ids >= 0]
        for ids, batch, outputs in trained.outputs(trained.model(), batches)
    ]
    return float(np.concatenate(wrong).mean())
