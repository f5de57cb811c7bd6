"""The figures of `lectures/normalization`."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

from attention_research.studies.figures import COLOURS, Figure, canvas, mark_plainly, save, styles
from attention_research.studies.results import Results

from .amplification import ACTIVATIONS
from .formulas import NORMS
from .verdicts import KEY, mean


def _curve(results: Results, row: str, name: str, place: int | None = None) -> list[float]:
    """Returns medians over seeds by layer, NaN where a value is missing. `place` selects a gain of a list by gain."""
    lists = results.values(row, f"measure.{name}")
    lists = lists if place is None else [one[place] for one in lists]
    return [math.nan if None in at else statistics.median(at) for at in zip(*lists, strict=True)]


def draw_gradients(results: Results, folder: Path) -> Figure | None:
    """Draws the gradient by layer before and after training, one line per model."""
    rows = [row for row in results.rows if _curve(results, row.id, "start_gradients") and "rate" not in row.name]
    if not rows:
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, 2, figsize=(13, 4.4))
    for row, style in zip(rows, styles(), strict=False):
        for axis, name in zip(axes, ("start_gradients", "gradients"), strict=True):
            curve = _curve(results, row.id, name)
            axis.plot(range(1, len(curve) + 1), curve, label=row.name, linewidth=1.4, markersize=5, **style)
    for axis, title in zip(axes, ("before training", "after training"), strict=True):
        axis.set_yscale("log")
        axis.set_title(title, loc="left", fontsize=11)
        axis.set_xlabel("layer")
        axis.xaxis.get_major_locator().set_params(integer=True)
    axes[0].set_ylabel("norm of the gradient, second feed-forward matrix")
    axes[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    where = folder / "gradients.png"
    save(pyplot, figure, where)
    ratios = {row.name: mean(results, row.id, "start_ratio") for row in rows}
    said = "; ".join(f"{name} {ratio:.2g}" for name, ratio in ratios.items() if ratio is not None)
    return Figure(where, "Gradients by layer", f"Last layer / first layer, before training: {said}.")


def draw_amplification(results: Results, folder: Path) -> Figure | None:
    """Draws the relative change and the range of activations by layer, one column per gain, dashed with layer norm."""
    gains = results.study.scale(results.scale).settings.get("gains", ())
    there = [activation for activation in ACTIVATIONS
             if results.values(f"changes_{activation}", "measure.ranges")
             or results.values(f"changes_{activation}_norm", "measure.ranges")]  # fmt: skip
    if not there:
        return None
    pyplot, said = canvas(), []
    figure, axes = pyplot.subplots(2, len(gains), figsize=(5.4 * len(gains), 7.2), sharex=True, squeeze=False)
    for column, gain in enumerate(gains):
        for activation, colour in zip(ACTIVATIONS, COLOURS[1:], strict=False):
            for row, line in ((f"changes_{activation}", "-"), (f"changes_{activation}_norm", "--")):
                for axis, name in zip(axes[:, column], ("amplified", "ranges"), strict=True):
                    curve = _curve(results, row, name, column)
                    label = activation + ", layer norm" * (line == "--")
                    axis.plot(range(1, len(curve) + 1), curve, line, color=colour, label=label if curve else None)
                    if curve and name == "amplified":
                        said.append(f"{label}, gain {gain:g}: {curve[-1]:.2g}")
        axes[0, column].set_title(f"gain {gain:g}", loc="left", fontsize=11)
        axes[1, column].set_xlabel("layer")
    for axis, label in zip(axes[:, 0], ("relative change / that of layer 1", "root mean square of activations"),
                           strict=True):  # fmt: skip
        axis.set_ylabel(label)
    for axis in axes.flat:
        axis.set_yscale("log")
    axes[0, -1].legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
    where = folder / "amplification.png"
    save(pyplot, figure, where)
    return Figure(where, "Growth of a small change of the weights by depth", f"At the last layer: {'; '.join(said)}.")


def draw_batch_sizes(results: Results, folder: Path) -> Figure | None:
    """Draws the error of a small network by the batch size of its training, one line per norm."""
    sizes = results.study.scale(results.scale).settings.get("batch_sizes", ())
    curves = {norm: _curve(results, f"loss_{norm}", "losses") for norm in NORMS}
    if not any(curves.values()):
        return None
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(6, 4))
    for (norm, curve), style in zip(curves.items(), styles(), strict=False):
        if curve:
            axis.plot(sizes, curve, label=norm.replace("_", " "), **style)
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [str(size) for size in sizes])
    axis.set_ylim(bottom=0)
    axis.set_xlabel("training batch size")
    axis.set_ylabel("error / variance of the target")
    axis.legend(frameon=False)
    where = folder / "batch_sizes.png"
    save(pyplot, figure, where)
    said = "; ".join(f"{norm.replace('_', ' ')} {', '.join(f'{value:.2g}' for value in curve)}"
                     for norm, curve in curves.items())  # fmt: skip
    return Figure(where, "Error by batch size", f"Batches of {', '.join(map(str, sizes))}: {said}.")


def draw_training(results: Results, folder: Path) -> Figure | None:
    """Draws the perplexity of every trained row: one point per seed and a bar at the mean. Diverged runs are left
    out."""
    rows = [row for row in results.rows if results.values(row.id, KEY)]
    if not rows:
        return None
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(8, 1 + 0.4 * len(rows)))
    said = []
    for place, row in enumerate(rows):
        values = [value for value in results.values(row.id, KEY) if math.isfinite(value)]
        axis.plot(values, [place] * len(values), "o", color=COLOURS[1], alpha=0.7)
        if values:
            axis.vlines(statistics.fmean(values), place - 0.3, place + 0.3, color=COLOURS[0])
            said.append(f"{row.name} {statistics.fmean(values):.1f}")
    axis.set_yticks(range(len(rows)), [row.name for row in rows])
    axis.invert_yaxis()
    axis.set_xscale("log")
    mark_plainly(axis.xaxis)
    axis.set_xlabel("perplexity per word piece")
    where = folder / "perplexity.png"
    save(pyplot, figure, where)
    return Figure(where, "Perplexity by norm", f"{'; '.join(said)}.")
