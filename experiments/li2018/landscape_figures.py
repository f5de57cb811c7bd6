"""The figures of `li2018/landscape`: contours and surfaces, without and with residual connections, on the same axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from attention_research.studies.figures import Figure, canvas, caption, save
from attention_research.studies.results import Results

DEPTHS = (20, 56)
KINDS = ("plain", "residual")


def _surfaces(results: Results) -> dict[int, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Maps depth and kind to (steps, log10 of the loss on the grid) of the first seed, if both kinds are measured."""
    found = {}
    for depth in DEPTHS:
        grids = {kind: results.values(f"{kind}_{depth}", "measure.surface") for kind in KINDS}
        if all(grids.values()):
            steps = np.asarray(results.values(f"{KINDS[0]}_{depth}", "measure.steps")[0])
            found[depth] = {kind: (steps, np.log10(np.asarray(grid[0]))) for kind, grid in grids.items()}
    return found


def _range(pair: dict[str, tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
    both = np.concatenate([values.ravel() for _, values in pair.values()])
    return float(both.min()), float(both.max())


def draw_contours(results: Results, folder: Path) -> Figure | None:
    """Draws lines of equal loss, one row of panels per depth. Both panels of a row have the same levels."""
    there = _surfaces(results)
    if not there:
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(
        len(there), 2, figsize=(8.4, 4 * len(there)), squeeze=False, sharex=True, sharey=True
    )
    for line, (depth, pair) in zip(axes, there.items(), strict=True):
        levels = np.linspace(*_range(pair), 16)
        for axis, (kind, (steps, values)) in zip(line, pair.items(), strict=True):
            lines = axis.contour(steps, steps, values, levels=levels, cmap="viridis", linewidths=1)
            axis.clabel(lines, lines.levels[::3], fmt=lambda level: f"{10**level:.2g}", fontsize=7)
            axis.plot(0, 0, "k+", markersize=8)
            axis.set_aspect("equal")
            axis.set_xticks([-1, -0.5, 0, 0.5, 1])
            axis.set_yticks([-1, -0.5, 0, 0.5, 1])
            axis.set_title(f"{kind}, {depth} layers")
    figure.supxlabel("first random direction", fontsize=10)
    figure.supylabel("second random direction", fontsize=10)
    where = folder / "loss_contours.png"
    save(figure, where, caption(results, "lines of equal training loss, +: the trained parameters", seeds="1 seed"))
    return Figure(where, "Lines of equal training loss around the trained parameters (+)", _said(there))


def draw_surfaces(results: Results, folder: Path) -> Figure | None:
    """Draws the same as surfaces; the height is the logarithm of the loss."""
    there = _surfaces(results)
    if not there:
        return None
    pyplot = canvas()
    figure = pyplot.figure(figsize=(8.8, 4 * len(there)))
    for line, (depth, pair) in enumerate(there.items()):
        low, high = _range(pair)
        for column, (kind, (steps, values)) in enumerate(pair.items()):
            axis: Any = figure.add_subplot(len(there), 2, 2 * line + column + 1, projection="3d")
            grid = np.meshgrid(steps, steps)
            axis.plot_surface(*grid, values, cmap="viridis", vmin=low, vmax=high, linewidth=0.2, edgecolor="#00000040")
            axis.set_zlim(low, high)
            axis.set_title(f"{kind}, {depth} layers", fontsize=11)
            axis.set_zlabel("log10 loss", fontsize=8)
            axis.set_xlabel("first direction", fontsize=8)
            axis.set_ylabel("second direction", fontsize=8)
            axis.set_xticks([-1, 0, 1])
            axis.set_yticks([-1, 0, 1])
            axis.tick_params(labelsize=8)
            axis.set_box_aspect(None, zoom=0.88)
    where = folder / "loss_surfaces.png"
    save(figure, where, caption(results, "height: logarithm of the training loss", seeds="1 seed"))
    return Figure(where, "Training loss over two filter-normalized directions", _said(there))


def _said(there: dict[int, dict[str, tuple[np.ndarray, np.ndarray]]]) -> str:
    texts = []
    for depth, pair in there.items():
        for kind, (_, values) in pair.items():
            low, high = 10 ** values.min(), 10 ** values.max()
            texts.append(f"{kind}, {depth} layers: loss from {low:.2g} to {high:.2g}")
    return f"{'; '.join(texts)}."
