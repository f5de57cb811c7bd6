"""The figures of `lectures/normalization`."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

from attention_research.studies.figures import (
    COLOURS,
    Figure,
    canvas,
    caption,
    legend,
    mark_plainly,
    row_styles,
    rows_as_points,
    save,
    styles_of,
)
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
    figure, axes = pyplot.subplots(1, 2, figsize=(10.5, 5))
    looks = row_styles(results, [row.id for row in rows])
    for row, style in ((row, looks[row.id]) for row in rows):
        for axis, name in zip(axes, ("start_gradients", "gradients"), strict=True):
            curve = _curve(results, row.id, name)
            axis.plot(range(1, len(curve) + 1), curve, label=row.name, linewidth=1.4, markersize=5, **style)
    for axis, title in zip(axes, ("before training", "after training"), strict=True):
        axis.set_yscale("log")
        axis.set_title(title, loc="left", fontsize=11)
        axis.set_xlabel("layer")
        axis.xaxis.get_major_locator().set_params(integer=True)
    axes[0].set_ylabel("norm of the gradient of the\nsecond feed-forward matrix")
    legend(figure)
    where = folder / "gradients.png"
    save(figure, where, caption(results, "lines: median over seeds", rows=[row.id for row in rows]))
    ratios = {row.name: mean(results, row.id, "start_ratio") for row in rows}
    said = "; ".join(f"{name} {ratio:.2g}" for name, ratio in ratios.items() if ratio is not None)
    return Figure(where, "Gradients by layer", f"Last layer / first layer, before training: {said}.")


def draw_amplification(results: Results, folder: Path) -> Figure | None:
    """Draws the relative change and the range of activations by layer, one column per gain, dashed with layer norm."""
    gains = results.settings.get("gains", ())
    there = [activation for activation in ACTIVATIONS
             if results.values(f"changes_{activation}", "measure.ranges")
             or results.values(f"changes_{activation}_norm", "measure.ranges")]  # fmt: skip
    if not there:
        return None
    pyplot, said = canvas(), []
    figure, axes = pyplot.subplots(2, len(gains), figsize=(4.7 * len(gains) + 0.6, 7.4), sharex=True, squeeze=False)
    for column, gain in enumerate(gains):
        for activation, colour in zip(ACTIVATIONS, COLOURS[1:], strict=False):
            for row, line in ((f"changes_{activation}", "-"), (f"changes_{activation}_norm", "--")):
                for axis, name in zip(axes[:, column], ("amplified", "ranges"), strict=True):
                    curve = _curve(results, row, name, column)
                    label = activation + ", layer norm" * (line == "--")
                    axis.plot(range(1, len(curve) + 1), curve, line, color=colour, label=label if curve else None)
                    if curve and name == "amplified":
                        said.append(f"{label}, gain {gain:g}: {curve[-1]:.2g}")
        axes[0, column].set_title(f"gain of the initial weights {gain:g}")
        axes[1, column].set_xlabel("layer")
    labels = ("relative change / that of layer 1", "root mean square of activations")
    for line, label in zip(axes, labels, strict=True):
        for axis in line:
            axis.set_ylabel(label)
            axis.set_yscale("log")
    legend(figure, columns=5)
    where = folder / "amplification.png"
    save(figure, where, caption(results, "lines: median over seeds"))
    return Figure(where, "Growth of a small change of the weights by depth", f"At the last layer: {'; '.join(said)}.")


def draw_batch_sizes(results: Results, folder: Path) -> Figure | None:
    """Draws the error of a small network by the batch size of its training, one line per norm."""
    sizes = results.settings.get("batch_sizes", ())
    curves = {norm: _curve(results, f"loss_{norm}", "losses") for norm in NORMS}
    if not any(curves.values()):
        return None
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(7, 4.4))
    for (norm, curve), style in zip(curves.items(), [*styles_of(["no_norm", *NORMS]).values()][1:], strict=False):
        if curve:
            axis.plot(sizes, curve, label=norm.replace("_", " "), **style)
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [str(size) for size in sizes])
    axis.set_ylim(bottom=0)
    axis.set_xlabel("training batch size")
    axis.set_ylabel("error / variance of the target")
    legend(figure)
    where = folder / "batch_sizes.png"
    save(figure, where, caption(results, "lines: median over seeds", rows=[f"loss_{norm}" for norm in NORMS]))
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
    values = {row.name: [one for one in results.values(row.id, KEY) if math.isfinite(one)] for row in rows}
    rows_as_points(axis, values)
    said += [f"{name} {statistics.fmean(numbers):.1f}" for name, numbers in values.items() if numbers]
    axis.set_xscale("log")
    mark_plainly(axis.xaxis, subs=(1, 1.5, 2, 3, 4, 5, 6, 7, 8))
    axis.set_xlabel("perplexity per character")
    where = folder / "perplexity.png"
    save(
        figure,
        where,
        caption(results, "points: seeds, bars: mean; diverged runs are left out", rows=[row.id for row in rows]),
    )
    return Figure(where, "Perplexity by norm", f"{'; '.join(said)}.")
