"""The figure of `woo2018/cbam`: maps of spatial gates."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np

from attention_research.studies.figures import Figure, canvas, caption, save
from attention_research.studies.results import Results

#: The rows with gates over positions.
SPATIAL = ("spatial", "spatial_released", "cbam", "cbam_released", "sca")


def draw_maps(results: Results, folder: Path) -> Figure | None:
    """Draws held-out images and, below each, the gates of the first stage of each network's first seed."""
    drawn = {row: found[0] for row in SPATIAL if (found := results.values(row, "measure.drawn"))}
    if not drawn:
        return None
    pyplot = canvas()
    pictures = next(iter(drawn.values()))
    names = {row.id: row.name for row in results.rows}
    figure, axes = pyplot.subplots(1 + len(drawn), len(pictures), figsize=(1.7 * len(pictures), 1.7 * (1 + len(drawn))))
    for axis, one in zip(axes[0], pictures, strict=True):
        axis.imshow(np.asarray(one["image"], np.uint8))
    for line, (row, maps) in zip(axes[1:], drawn.items(), strict=True):
        for axis, one in zip(line, maps, strict=True):
            axis.imshow(np.asarray(one["map"]), cmap="gray")
        line[0].set_ylabel(textwrap.fill(names[row], 20), fontsize=9)
    axes[0, 0].set_ylabel("image", fontsize=9)
    for axis in axes.ravel():
        axis.set_xticks([])
        axis.set_yticks([])
        axis.grid(False)
    where = folder / "gate_maps.png"
    save(figure, where, caption(results, "gate of the first stage, white: large", seeds="1 seed"))
    said = f"Digits {', '.join(str(one['label']) for one in pictures)}"
    return Figure(where, "Spatial gates of the first stage (white: large)", f"{said}; gates of {', '.join(drawn)}.")
