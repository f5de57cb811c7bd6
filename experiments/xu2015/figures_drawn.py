"""The figures of `xu2015/figures`: images with a mask for each word, and the distances that attention moves."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap

import numpy as np

from attention_research.analysis.picture_strip import lit
from attention_research.studies.figures import Figure, canvas, caption, groups_as_points, legend, save, styles_of
from attention_research.studies.results import Results

from .figures_verdicts import ROWS

MOVES = {"moves_within": "within an object", "moves_between": "between objects", "moves_shuffled": "another order"}


def draw_strips(results: Results, folder: Path) -> Figure | None:
    """Draws the first held-out images with the masks of every word, one row for each model's first seed."""
    there = [
        (row.name, strip)
        for row in results.rows
        if (found := results.values(row.id, "measure.strips"))
        for strip in found[0]
    ]
    if not there:
        return None
    pyplot = canvas()
    columns = 1 + max(len(strip["words"]) for _, strip in there)
    size = (1.08 * columns, 1.42 * len(there))
    figure, axes = pyplot.subplots(len(there), columns, figsize=size, squeeze=False)
    for axis in axes.ravel():
        axis.axis("off")
    said = []
    for line, (name, strip) in zip(axes, there, strict=True):
        image = np.asarray(strip["image"], np.uint8)
        line[0].imshow(image)
        line[0].set_title("\n".join(wrap(name, 16)), fontsize=7)
        for axis, word, mask in zip(line[1:], strip["words"], strip["masks"], strict=False):
            lit(axis, image, np.asarray(mask))
            axis.set_title(word, fontsize=8)
        said.append(f"{name}: {' '.join(strip['words'])}")
    where = folder / "strips.png"
    save(figure, where, caption(results, "attention for each generated word, bright: large weights", seeds="1 seed"))
    return Figure(where, "Attention mask for each generated word", f"{'; '.join(said)}.")


def draw_gaze(results: Results, folder: Path) -> Figure | None:
    """Draws the mean distances between the centres of attention of successive words, one group of bars per model."""
    there = {row.id: row.name for row in results.rows if row.id in ROWS and results.values(row.id, "measure.moves")}
    if not there:
        return None
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(8, 4.4))
    said = []
    for key, name in MOVES.items():
        means = [results.mean(row, f"measure.{key}") or 0.0 for row in there]
        said.append(f"{name} {', '.join(f'{mean:.2f}' for mean in means)}")
    values = {row_name: {name: results.values(row, f"measure.{key}") for key, name in MOVES.items()}
              for row, row_name in there.items()}  # fmt: skip
    groups_as_points(axis, values, styles_of(MOVES.values()), 22)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("mean distance between the centres of\nattention of successive words, cells")
    legend(figure)
    where = folder / "moves.png"
    save(figure, where, caption(results, "one mark per seed, bars: mean", rows=list(there)))
    alt = f"{'; '.join(there.values())}: {'; '.join(said)}."
    return Figure(where, "How far attention moves from word to word", alt)
