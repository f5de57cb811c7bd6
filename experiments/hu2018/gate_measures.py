"""Measurements of the gates of a trained image classifier: channel gates by class, and pixel gates by object
position."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np


def measure_gates(*, workdir: Path, seed: int, examples: int = 1000, **_: Any) -> dict[str, Any]:
    """Measures the gates of the last block on `examples` test images.

    "by_class" is the share of the gates' variance over images that classes explain (0 to 1), averaged over channels.
    "mass" is the share of a map's pixel gates in the cell of the object, if "cells" are known; "mass_by_stage" is the
    same by stage, and "area" the share for uniform gates. "drawn" holds some images with the maps of the first stage.
    Measurements for which a network has no gates are left out.
    """
    from attention_research.training.evaluation import Trained

    del seed
    trained = Trained(workdir)
    found: dict[str, Any] = {}
    channels: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    masses: list[np.ndarray] = []
    drawn: list[dict[str, Any]] = []
    for real, batch, gates in _gates(trained, examples):
        blocks = [_last(stage) for stage in gates.values()]
        labels.append(batch["label"][real])
        if "channels" in blocks[-1]:
            channels.append(blocks[-1]["channels"][real])
        if "pixels" in blocks[-1] and "cells" in batch:
            maps = [block["pixels"][real] for block in blocks]
            cells, grid = batch["cells"][real], trained.data.layout.grid
            masses.append(np.stack([mass(one, cells, grid) for one in maps], axis=1))
            if not drawn:
                drawn = [{"image": batch["image"][i].tolist(), "map": np.round(maps[0][i], 4).tolist(),
                          "label": int(batch["label"][i])} for i in range(4)]  # fmt: skip
    if channels:
        found["by_class"] = explained(np.concatenate(channels), np.concatenate(labels))
    if masses:
        by_stage = np.concatenate(masses).mean(axis=0)
        found |= {"mass": float(by_stage.max()), "mass_by_stage": by_stage.tolist(), "area": 1 / grid**2}
        found["drawn"] = drawn
    return found


def _gates(trained: Any, examples: int) -> Iterator[tuple[np.ndarray, dict, dict]]:
    """Yields (which rows are not padding, batch, the gates of each stage) over test images."""
    merge = trained.trainer.structure.merge
    look = jax.jit(lambda model, batch: merge(*model).log_probabilities(batch)[1]["features"]["gates"])
    for ids, batch in trained.data.evaluation_batches("test", trained.evaluation.batch_size, examples=examples):
        yield ids >= 0, batch, jax.device_get(look(trained.model(), batch))


def _last(stage: dict[str, Any]) -> dict[str, np.ndarray]:
    """Returns the gates of the last block of a stage."""
    if "others" in stage:
        return {name: gates[-1] for name, gates in stage["others"].items()}
    return stage["first"]


def explained(values: np.ndarray, labels: np.ndarray) -> float:
    """For values [n C] and their classes: the variance of class means divided by the total variance, averaged over C.

    The ratio is 0 if the total variance is 0.

    >>> explained(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), np.array([0, 0, 1, 1]))
    0.5
    """
    classes = np.unique(labels)
    means = np.stack([values[labels == one].mean(axis=0) for one in classes])
    shares = np.array([np.mean(labels == one) for one in classes])
    between = (shares[:, None] * (means - values.mean(axis=0)) ** 2).sum(axis=0)
    total = values.var(axis=0)
    return float(np.mean(np.divide(between, total, out=np.zeros_like(total), where=total > 0)))


def mass(maps: np.ndarray, cells: np.ndarray, grid: int) -> np.ndarray:
    """The share [n] of the sum of each map [n V U] in its cell.

    The image is divided into `grid` x `grid` cells, numbered from 1.

    >>> mass(np.ones((1, 6, 6)), np.array([5]), 3).round(6).tolist()
    [0.111111]
    """
    rows, columns = (np.arange(length) * grid // length for length in maps.shape[1:])
    here = (rows[:, None] * grid + columns + 1)[None] == cells[:, None, None]
    return (maps * here).sum(axis=(1, 2)) / maps.sum(axis=(1, 2))
