"""Exact match of a trained model by the lengths of source and target, both in words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention_research.training.evaluation import Trained


def cells(
    right: Sequence[bool], sources: Sequence[int], targets: Sequence[int], edges: Sequence[int]
) -> tuple[list[list[float | None]], list[list[int]]]:
    """Returns (share of correct pairs, number of pairs) of each cell.

    Rows are lengths of the source from edges[i] to below edges[i + 1]; columns are those of the target. The share of an
    empty cell is None.

    >>> cells([True, False, True], [1, 1, 3], [2, 2, 4], (1, 3, 5))
    ([[0.5, None], [None, 1.0]], [[2, 0], [0, 1]])
    """
    bins = len(edges) - 1
    found: list[list[list[bool]]] = [[[] for _ in range(bins)] for _ in range(bins)]
    for one, *lengths in zip(right, sources, targets, strict=True):
        row, column = (int(np.searchsorted(edges, length, side="right")) - 1 for length in lengths)
        if 0 <= row < bins and 0 <= column < bins:
            found[row][column].append(one)
    shares = [[float(np.mean(cell)) if cell else None for cell in row] for row in found]
    return shares, [[len(cell) for cell in row] for row in found]


def measure_cells(*, workdir: Path, seed: int, edges: Sequence[int], examples: int | None = None, **_: Any) -> dict:
    """Measures the exact match of a trained run on its test split.

    "exact" is over all pairs, "exact_unequal" over pairs whose sides differ in length. "cells" and "counts" are by
    `edges`, and "worst" is the smallest share of a cell.
    """
    del seed
    trained = Trained(workdir)
    written = trained.translations(trained.model(), trained.data.evaluation_batches("test", 64, examples))
    sources, references = trained.data.text("test")
    right = np.asarray([text == references[i] for i, text in written.items()])
    read, said = ([len(side[i].split()) for i in written] for side in (sources, references))
    unequal = np.not_equal(read, said)
    shares, counts = cells(right.tolist(), read, said, edges)
    return {
        "exact": float(right.mean()),
        "exact_unequal": float(right[unequal].mean()),
        "cells": shares,
        "counts": counts,
        "worst": min(share for row in shares for share in row if share is not None),
    }
