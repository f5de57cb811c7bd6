"""Figures of a column of the table: its numbers by row, and a measured number against the study's axis."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Callable
from pathlib import Path

from attention_research.studies import floors
from attention_research.studies.columns import Column, exponent, stored_floors
from attention_research.studies.figure_caption import Figure, caption, save
from attention_research.studies.figure_style import BASELINE, MEAN, PUBLISHED, SEED, canvas, legend, row_styles
from attention_research.studies.loss_figure import groups
from attention_research.studies.results import Results, finite, published

_FLOOR_LINES = ("--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))
#: A floor is drawn if it is at most this many times the range of the rows away from them.
_FAR = 2


def by_row(column: Column, printed: str = "") -> Callable[[Results, Path], Figure | None]:
    """A function for `Study.figures` that draws a column over the range of its values, in a file named after its key.

    ``printed`` is the column of the study's CSV with published numbers, which are drawn below ours.
    """

    def drawn(results: Results, folder: Path) -> Figure | None:
        path = folder / f"{column.key.split('.')[1]}.png"
        return draw_by_row(results, column, path, from_zero=False, printed=printed)

    return drawn


def draw_by_row(
    results: Results, column: Column, path: Path, *, from_zero: bool = True, printed: str = ""
) -> Figure | None:
    """Draws one number for each row: the mean with one sample standard deviation, and a circle for each seed.

    The interval ends at the bounds of the metric. It leaves out runs that diverged, which are counted beside the name
    of their row; a row of which all diverged is not drawn. Diamonds are published numbers, and dashed lines are floors.
    Rows that are trained on different data have separate panels.
    """
    found = {row.id: results.cell(row.id, column) for row in results.rows}
    cells = {row: dataclasses.replace(cell, values=tuple(filter(finite, cell.values))) for row, cell in found.items()}
    cells = {row: cell for row, cell in cells.items() if cell.values}
    if not cells:
        return None
    names = {row.id: row.name for row in results.rows}
    for row, cell in cells.items():
        lost = max(len(found[row].values) - len(cell.values), results.diverged(row))
        names[row] += f" ({lost} diverged)" if lost else ""
    by_data, theirs = groups(results, cells), _printed(results, printed)
    sizes = [len(rows) for rows in by_data.values()]
    sizes[-1] += len(theirs)
    pyplot = canvas()
    floors_of = [_floor_lines(results, column, rows) for rows in by_data.values()]
    height = 0.5 + sum(0.32 * size + 0.85 + 0.12 * len(lines) for size, lines in zip(sizes, floors_of, strict=True))
    figure, axes = pyplot.subplots(len(sizes), 1, figsize=(8.5, height), height_ratios=sizes, squeeze=False)
    drawn, said = False, dict.fromkeys(name for lines in floors_of for name in lines)
    dashes = dict(zip(said, itertools.cycle(_FLOOR_LINES), strict=False))
    for axis, (data, rows), lines in zip(axes[:, 0], by_data.items(), floors_of, strict=True):
        for place, row in enumerate(rows):
            cell = cells[row]
            assert cell.mean is not None
            spread = cell.deviation or 0.0
            low, high = column.clipped(cell.mean - spread), column.clipped(cell.mean + spread)
            axis.plot([low, high], [place, place], color="#000000", linewidth=1.4, marker="|", markersize=8, zorder=2)
            axis.plot(cell.mean, place, "o", color=MEAN, markersize=6, zorder=4)
            axis.plot(cell.values, [place + 0.28] * len(cell.values), "o", color=SEED, markersize=3.5, zorder=3)
        shown = [names[row] for row in rows]
        if data == list(by_data)[-1]:
            for place, number in enumerate(theirs.values(), start=len(rows)):
                axis.plot(number, place, "D", color=PUBLISHED, markersize=6)
            shown += [f"{name} (published)" for name in theirs]
        low, high = axis.get_xlim()
        for name, number in lines.items():
            look = {"color": BASELINE, "linestyle": dashes[name], "linewidth": 1.2}
            if from_zero or low - _FAR * (high - low) < number < high + _FAR * (high - low):
                axis.axvline(number, label=f"{name}: {number:.2f}", **look)
                drawn = True
            else:  # to show this line, the axis would have to be much longer
                axis.plot([], [], label=f"{name}: {number:.2f} (outside)", **{**look, "linestyle": "none"})
        if lines:
            place = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "ncols": 2, "borderaxespad": 0.2}
            axis.legend(fontsize=9, **place).set_in_layout(False)
        axis.set_yticks(range(len(shown)), shown)
        axis.set_ylim(len(shown) - 0.4, -0.6)
        if from_zero:
            axis.set_xlim(left=min(0.0, *(min(cells[row].values) for row in rows)))
        axis.set_xlabel(column.title)
        axis.set_title(data, pad=6 + 14 * -(-len(lines) // 2))
    marks = "dots: mean, bars: standard deviation, small dots: seeds"
    marks += ", diamonds: published" if theirs else ""
    marks += ", grey lines: baselines" if drawn else ""
    save(figure, path, caption(results, marks, rows=cells))
    texts = "; ".join(f"{names[row]} {cell.text}" for row, cell in cells.items())
    return Figure(path, f"{column.title} by row", f"{column.title} by row: {texts}.")


def _printed(results: Results, name: str) -> dict[str, float]:
    """Name -> published number, for each row with a cell in this column of the study's CSV."""
    cells = published(results.study, results.scale) if name else {}
    return {row.name: float(cells[row.id][name]) for row in results.rows if name in cells.get(row.id, {})}


def _floor_lines(results: Results, column: Column, rows: list[str]) -> dict[str, float]:
    """Name -> number of each floor of a column on the data of some rows: from floors that are trials, else from those
    that evaluations store."""
    found: dict[str, float] = {}
    for entry in results.floors:
        if set(entry.trial.stages[0]["settings"]["rows"]).isdisjoint(rows):
            continue
        data = f" ({entry.trial.stages[0]['settings']['name']})"  # the title of the panel names the data
        lines = floors.lines([entry])
        found |= {name.removesuffix(data): numbers[column.key] for name, numbers in lines if column.key in numbers}
    for metric, floor in stored_floors() if not found else ():
        if column.key == f"evaluate.{metric.name}":
            below = [x for row in rows for x in results.values(row, f"evaluate.{floor.stored}")]
            if below:
                found[floor.said] = statistics.fmean(below)
    return found


def draw_against(results: Results, column: Column, path: Path) -> Figure | None:
    """Draws a measured number against the study's axis, both logarithmic, with the fitted power."""
    lines = {}
    for row in results.rows:
        cells = [(point, results.cell(row.id, column, point)) for point in results.points]
        cells = [(point, cell) for point, cell in cells if cell.mean is not None and cell.mean > 0]
        if cells:
            lines[row.id] = cells
    if not lines:
        return None
    names, styles = {row.id: row.name for row in results.rows}, row_styles(results)
    figure, axis = canvas().subplots(figsize=(8.5, 5.4))
    said = []
    for row, cells in lines.items():
        points, means = [point for point, _ in cells], [cell.mean for _, cell in cells if cell.mean is not None]
        power = exponent(points, means)
        variable = results.study.axis_name or results.study.axis
        label = names[row] if power is None else f"{names[row]}: ~ {variable}^{power:.2f}"
        low, high = [min(c.values) for _, c in cells], [max(c.values) for _, c in cells]
        axis.plot(points, means, label=label, linewidth=1.4, markersize=6, **styles[row])
        axis.fill_between(points, low, high, color=styles[row]["color"], alpha=0.15, linewidth=0)
        said.append(label)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(results.points, [f"{point:,}" for point in results.points])
    axis.minorticks_off()
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.set_xlabel(results.study.axis)
    axis.set_ylabel(column.key.split(".")[1].replace("_", " "))
    legend(figure, columns=2, title="row, and the power fitted to all points")
    save(figure, path, caption(results, "lines: mean over seeds, bands: range of the seeds, both axes logarithmic"))
    title = f"{column.title} against {results.study.axis}, both logarithmic"
    return Figure(path, title, f"{title}. Fitted powers: {'; '.join(said)}.")
