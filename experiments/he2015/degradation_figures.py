"""The figures of `he2015/degradation`: errors by depth, and during training as in figures 1 and 6 of the paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from attention_research.studies.figures import COLOURS, Figure, canvas, caption, legend, save
from attention_research.studies.results import Results

KINDS = ("plain", "residual")
#: The number of logged steps that are averaged for a point of a training curve.
WINDOW = 10


def _depths(results: Results, kind: str) -> list[int]:
    found = [int(row.id.split("_")[1]) for row in results.rows if row.id.startswith(f"{kind}_")]
    return sorted(depth for depth in found if results.values(f"{kind}_{depth}", "measure.train_error"))


def draw_depths(results: Results, folder: Path) -> Figure | None:
    """Draws training and test error against depth, with one point per seed and a line through the means."""
    if not any(_depths(results, kind) for kind in KINDS):
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 4.2), sharey=True)
    said = []
    for axis, (key, name) in zip(axes, (("train_error", "training"), ("test_error", "test")), strict=True):
        for kind, marker, colour in zip(KINDS, "so", (COLOURS[2], COLOURS[1]), strict=True):
            depths = _depths(results, kind)
            means = [100 * np.mean(results.values(f"{kind}_{depth}", f"measure.{key}")) for depth in depths]
            line = "--" if kind == "plain" else "-"
            axis.plot(depths, means, line, marker=marker, color=colour, label=kind)
            for depth in depths:
                values = [100 * value for value in results.values(f"{kind}_{depth}", f"measure.{key}")]
                axis.plot([depth] * len(values), values, marker, color=colour, alpha=0.4, markersize=4)
            pairs = zip(depths, means, strict=True)
            said.append(f"{name}, {kind}: " + ", ".join(f"{depth} layers {mean:.1f} %" for depth, mean in pairs))
        axis.set_title(f"{name} error", loc="left", fontsize=11)
        axis.set_xlabel("layers")
        axis.set_xticks(sorted({depth for kind in KINDS for depth in _depths(results, kind)}))
    axes[0].set_ylabel("error, %")
    legend(figure)
    where = folder / "error_by_depth.png"
    save(figure, where, caption(results, "lines: mean over seeds, small marks: seeds"))
    return Figure(where, "Error by depth", f"{'; '.join(said)}.")


def draw_curves(results: Results, folder: Path) -> Figure | None:
    """Draws the error during training of the shallowest and the deepest network.

    Lines are the errors of training batches, points those of the validation split.
    """
    if not any(_depths(results, kind) for kind in KINDS):
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 4.2), sharey=True)
    said = []
    for axis, kind in zip(axes, KINDS, strict=True):
        depths = _depths(results, kind)
        for depth, line, colour in zip(
            depths[:1] + depths[1:][-1:], ("-", "--"), (COLOURS[1], COLOURS[2]), strict=False
        ):
            row = f"{kind}_{depth}"
            steps, errors = _mean_curve(results.values(row, "measure.curve"))
            smooth = np.convolve(errors, np.ones(WINDOW) / WINDOW, "valid") if len(errors) > WINDOW else errors
            axis.plot(steps[-len(smooth) :], 100 * smooth, line, color=colour, label=f"{depth} layers, training")
            steps, errors = _mean_curve(results.values(row, "measure.validation_curve"))
            axis.plot(
                steps, 100 * errors, "os"[line == "--"], color=colour, markersize=5, label=f"{depth} layers, validation"
            )
            said.append(f"{kind}, {depth} layers: final error of training batches {100 * smooth[-1]:.1f} %")
        axis.set_title(kind, loc="left", fontsize=11)
        axis.set_xlabel("updates")
    legend(figure)
    axes[0].set_ylabel("error, %")
    where = folder / "error_curves.png"
    save(figure, where, caption(results, "lines and points: mean over seeds"))
    return Figure(where, "Error during training, mean over seeds", f"{'; '.join(said)}.")


def _mean_curve(curves: tuple) -> tuple[np.ndarray, np.ndarray]:
    """Returns (steps, mean over seeds)."""
    stacked = np.asarray(curves, float)
    return stacked[0, :, 0], stacked[:, :, 1].mean(axis=0)
