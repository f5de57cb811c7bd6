"""The training loss of a study's rows against the step. Losses on different data never share an axis."""

from __future__ import annotations

import itertools
import math
import statistics
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attention_research.studies.figure_caption import Figure, caption, save
from attention_research.studies.figure_style import canvas, legend, row_styles
from attention_research.studies.results import Results, finite

#: With at most this many rows, a panel shows all of its data's rows. With more, each row has a panel.
_TOGETHER = 7
_ACROSS = 4
#: A smoothed loss is the mean over this part of the steps: a tenth. It is drawn if the noise hides the differences.
_PART, _NOISE = 10, 0.6
#: If a loss grows to this many times its start, the axis is logarithmic.
_GROWN = 10
#: The settings in a section of data that must be equal if the losses of two rows are compared. The first two give the
#: name of the data.
_SAME_LOSS = ("kind", "name", "source_language", "target_language", "objective", "subject", "aspect")

#: Steps, and the mean, lowest and highest loss at these.
Curve = tuple[list[int], list[float], list[float], list[float]]


def draw_loss(results: Results, path: Path) -> Figure | None:
    """Draws the mean over seeds, with the range of the seeds as a band. There is one panel for each data set.

    With many rows there is one panel for each row: blue is its row, black the first row on the same data, and grey
    shows all others on the same data.
    """
    curves = {row.id: curve for row in results.rows if (curve := _mean_curve(results, row.id))}
    if not curves:
        return None
    by_data = groups(results, curves)
    draw = _together if len(curves) <= _TOGETHER else _one_a_row
    figure, marks = draw(results, curves, by_data)
    if any(results.diverged(row) for row in curves):
        marks += "; of rows with other runs, diverged runs are left out"
    begin = statistics.median(curve[1][0] for curve in curves.values())
    for axis in figure.axes:
        highest = max((y for line in axis.get_lines() for y in line.get_ydata() if finite(y)), default=0)
        axis.set_yscale("log" if highest > _GROWN * begin else "linear")
    save(figure, path, caption(results, f"training loss by step, {marks}", rows=curves))
    names = {row.id: row.name for row in results.rows}
    last = "; ".join(f"{names[row]} {curve[1][-1]:.2f}" for row, curve in curves.items())
    return Figure(path, f"Training loss: {marks}", f"Loss curves. Last losses: {last}.")


def groups(results: Results, rows: Mapping[str, Any]) -> dict[str, list[str]]:
    """Name of the data -> the ids of the rows that are trained on them. Losses of two groups cannot be compared.

    The name is empty if all rows have the same data.
    """
    data: dict[str, dict[str, Any]] = {}
    for entry in results.entries:
        section = (entry.trial.given or {}).get("data") or {}
        found = {name: section[name] for name in _SAME_LOSS if name in section}
        objective = found.get("objective")
        data.setdefault(entry.trial.row, {**found, "objective": objective and objective["kind"]})
    by_data: dict[str, list[str]] = {}
    said = {row: _said(data.get(row, {}), list(data.values())) for row in rows}
    for row in rows:
        by_data.setdefault(said[row], []).append(row)
    return by_data if len(by_data) > 1 else {"": list(rows)}


def _said(one: Mapping[str, Any], every: list[dict[str, Any]]) -> str:
    """The name of the data, and the other settings that distinguish them from the data of other rows."""
    title = str(one.get("name") or one.get("kind") or "")
    differs = [name for name in _SAME_LOSS[2:] if len({str(other.get(name)) for other in every}) > 1]
    further = [
        str(one[name]) for name in differs if one.get(name) and name not in ("source_language", "target_language")
    ]
    return ", ".join([title, *further]).replace("_", " ")


def _together(results: Results, curves: Mapping[str, Curve], by_data: Mapping[str, list[str]]) -> tuple[Any, str]:
    pyplot, styles = canvas(), row_styles(results, curves)
    names = {row.id: row.name for row in results.rows}
    width = 8.5 if len(by_data) == 1 else 10
    figure, axes = pyplot.subplots(1, len(by_data), figsize=(width, 4.4), squeeze=False)
    smooth = any(_noisy([curves[row] for row in rows]) for rows in by_data.values())
    for axis, (data, rows) in zip(axes[0], by_data.items(), strict=True):
        for row in rows:
            steps, *numbers = curves[row]
            mean, low, high = map(_smoothed, numbers) if smooth else numbers
            line = {"markevery": max(1, len(steps) // 8), "markersize": 5, "linewidth": 1.4, **styles[row]}
            axis.plot(steps, mean, label=names[row], **line)
            axis.fill_between(steps, low, high, color=styles[row]["color"], alpha=0.15, linewidth=0)
        axis.set_title(_wrapped(data, 60 // len(by_data)))
        axis.set_xlabel("step")
    axes[0, 0].set_ylabel("training loss")
    legend(figure, columns=3)
    further = " and over a tenth of the steps" if smooth else ""
    return figure, f"lines: mean over seeds{further}, bands: range of the seeds"


def _noisy(curves: list[Curve]) -> bool:
    """Whether the noise of curves hides their differences: in their second halves, a step from one point to the next
    changes the loss by more than `_NOISE` times the difference of the highest and the lowest mean."""
    halves = [mean[len(mean) // 2 :] for _, mean, _, _ in curves if len(mean) >= 2 * _PART]
    if len(halves) < 2:
        return False
    noise = statistics.fmean(abs(b - a) for half in halves for a, b in itertools.pairwise(half))
    ends = [statistics.fmean(half) for half in halves]
    return noise > _NOISE * (max(ends) - min(ends))


def _smoothed(values: list[float]) -> list[float]:
    """Means over a tenth of the values around each one. Windows at the beginning are smaller; those at the end are cut.

    >>> _smoothed([float(value) for value in range(40)])[-3:]
    [37.0, 37.5, 38.0]
    """
    reach = (min(at, len(values) // (2 * _PART)) for at in range(len(values)))
    return [statistics.fmean(values[at - one : at + one + 1]) for at, one in enumerate(reach)]


def _one_a_row(results: Results, curves: Mapping[str, Curve], by_data: Mapping[str, list[str]]) -> tuple[Any, str]:
    pyplot = canvas()
    names = {row.id: row.name for row in results.rows}
    data_of = {row: data for data, rows in by_data.items() for row in rows}
    high = -(-len(data_of) // _ACROSS)
    figure, axes = pyplot.subplots(high, _ACROSS, figsize=(10, 2 * high), squeeze=False, layout="none")
    # Room for titles and numbers; matplotlib's own layout of many panels takes minutes.
    figure.subplots_adjust(left=0.06, right=0.99, bottom=0.5 / (2 * high), top=1 - 0.5 / (2 * high))
    figure.subplots_adjust(hspace=1.0, wspace=0.22)
    shared: dict[str, Any] = {}
    for axis in axes.flat[len(data_of) :]:
        axis.remove()
    for (row, data), axis in zip(data_of.items(), axes.flat, strict=False):
        same = by_data[data]
        axis.plot(*_joined([curves[other] for other in same]), color="#d0d0d0", linewidth=0.8, zorder=1)
        axis.plot(*curves[same[0]][:2], color="#000000", linewidth=1.2, zorder=2)
        if row != same[0]:
            steps, mean, low, top = curves[row]
            axis.plot(steps, mean, color="#0072B2", linewidth=1.6, zorder=3)
            axis.fill_between(steps, low, top, color="#0072B2", alpha=0.2, linewidth=0)
        axis.set_title("\n".join(filter(None, (data, _wrapped(names[row], 34)))), fontsize=8.5)
        axis.tick_params(labelsize=8)
        first = shared.setdefault(data, axis)
        if first is not axis:
            axis.sharex(first)
            axis.sharey(first)
    for axis in axes[:, 0]:
        axis.set_ylabel("training loss", fontsize=9)
    for axis in figure.axes:
        axis.set_xlabel("step", fontsize=9)
    said = "blue: the row of the title, black: the first row, grey: all other rows"
    return figure, f"{said}{' on the same data' if len(by_data) > 1 else ''}; lines: mean over seeds, bands: range"


def _joined(curves: list[Curve]) -> tuple[list[float], list[float]]:
    """All curves as one line with gaps, which is drawn faster than many lines."""
    steps = [x for curve in curves for x in (*curve[0], math.nan)]
    return steps, [y for curve in curves for y in (*curve[1], math.nan)]


def _wrapped(name: str, letters: int) -> str:
    return textwrap.fill(name, letters, break_long_words=False, break_on_hyphens=False)


def _mean_curve(results: Results, row: str) -> Curve | None:
    runs = [e.result for e in results.of(row) if e.result]
    runs = [run for run in runs if not run["diverged"]] or runs
    seeds = [dict(run["curves"].get("train", [])) for run in runs]
    seeds = [{int(step): loss for step, loss in seed.items() if finite(loss)} for seed in seeds]
    steps = sorted(set.intersection(*map(set, seeds))) if seeds else []
    if not steps:
        return None
    at = [[seed[step] for seed in seeds] for step in steps]
    assert all(math.isfinite(value) for values in at for value in values)
    return steps, [statistics.fmean(v) for v in at], [min(v) for v in at], [max(v) for v in at]
