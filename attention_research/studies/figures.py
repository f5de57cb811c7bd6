"""Figures of a study: loss curves, numbers by row with their spread, and time or memory against length.

Rows differ in marker and line style as well as in colour. matplotlib is installed with the extra ``report``.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_research.analysis import picture_file
from attention_research.errors import RunError
from attention_research.studies import floors
from attention_research.studies.columns import BLEU, F1, Column, exponent, stored_floors
from attention_research.studies.results import Results, finite, published

# The colours of Okabe and Ito, which people with colour blindness can distinguish.
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
_LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))
_ROWS_IN_A_PANEL, _HIGH_PANELS = 7, 3
#: The figures that every study may have: the loss curve, and columns of its table.
_OF_EVERY_STUDY = ("loss.png", "bleu.png", "f1.png")
#: If a loss grows to this many times its start, the axis is logarithmic.
_GROWN = 10


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure that was written to a file, with its title and its alternative text."""

    path: Path
    title: str
    alt: str


def draw(results: Results, folder: Path) -> list[Figure]:
    """Draws the study's figures into ``folder``. Figures without results are left out."""
    pyplot = canvas()
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [_loss(pyplot, results, folder / "loss.png")]
    for column in (BLEU, F1):
        own = next((one for one in results.columns if one.key == column.key), column)
        drawn.append(_by_row(pyplot, results, own, folder / f"{column.key.split('.')[1]}.png"))
    for column in results.columns:
        if column.at_points and len(results.points) > 1:
            drawn.append(_against(pyplot, results, column, folder / f"{column.key.split('.')[1]}.png"))
    drawn += [function(results, folder) for function in results.study.figures]
    return [figure for figure in drawn if figure]


def worth_recording(drawn: Sequence[Figure]) -> list[Figure]:
    """The figures to record: the study's own, or the loss curve if it has none. The others repeat the table."""
    own = [figure for figure in drawn if figure.path.name not in _OF_EVERY_STUDY]
    return own or [figure for figure in drawn if figure.path.name == _OF_EVERY_STUDY[0]]


def canvas() -> Any:
    """matplotlib's pyplot, set up to draw into files. Raises RunError if matplotlib is not installed."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        line = "pictures need matplotlib, the extra `report`: pip install 'attention_research[report]'"
        raise RunError(line) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True})
    pyplot.rcParams.update({"grid.color": "#dddddd", "grid.linewidth": 0.6, "legend.frameon": False})
    return pyplot


def styles() -> Any:
    """An endless iterator over the colour, marker and line style of each line."""
    cycles = map(itertools.cycle, (COLOURS, _MARKERS, _LINES))
    return ({"color": c, "marker": m, "linestyle": s} for c, m, s in zip(*cycles, strict=False))


def mark_plainly(axis: Any) -> None:
    """Puts the ticks of a logarithmic axis (`xaxis` or `yaxis`) at 1, 2 and 5 times powers of ten, as plain numbers."""
    axis.get_major_locator().set_params(subs=(1, 2, 5))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.minorticks_off()


def heat_maps(results: Results, path: Path, maps: Sequence[Mapping[str, Any]], what: str) -> Figure | None:
    """Draws alignments with `analysis.alignment_figure`; None without any. A map may have a "title"."""
    if not maps:
        return None
    from attention_research.analysis import alignment_figure

    path.parent.mkdir(parents=True, exist_ok=True)
    alignment_figure.draw(maps, path, f"{results.study.name} · {results.scale} · {what}")
    said = [
        f"{one.get('title', '')}: {' '.join(one['source'])} -> {' '.join(one['target'])}".removeprefix(": ")
        for one in maps
    ]
    title = f"Alignment weights, {what}: rows are written, columns read; white is 1"
    return Figure(path, title, f"Heat maps. {'; '.join(said)}.")


def _loss(pyplot: Any, results: Results, path: Path) -> Figure | None:
    """Draws the training loss against steps: the mean over seeds, with the range of the seeds as a band."""
    curves = {row.name: c for row in results.rows if (c := _mean_curve(results, row.id))}
    if not curves:
        return None
    first, *others = curves
    panels = [others[i : i + _ROWS_IN_A_PANEL - 1] for i in range(0, len(others), _ROWS_IN_A_PANEL - 1)] or [[]]
    size = (9, (4.2 if len(panels) <= _HIGH_PANELS else 2.4) * len(panels))
    figure, axes = pyplot.subplots(len(panels), 1, figsize=size, squeeze=False, sharex=True, sharey=True)
    for axis, names in zip(axes[:, 0], panels, strict=True):
        for name, style in zip([first, *names], styles(), strict=False):
            steps, mean, low, high = curves[name]
            axis.plot(steps, mean, label=name, markevery=max(1, len(steps) // 8), markersize=5, linewidth=1.4, **style)
            axis.fill_between(steps, low, high, color=style["color"], alpha=0.15, linewidth=0)
        axis.set_ylabel("training loss")
        axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    begin, highest = statistics.median(c[1][0] for c in curves.values()), max(max(c[3]) for c in curves.values())
    axes[0, 0].set_yscale("log" if highest > _GROWN * begin else "linear")
    axes[-1, 0].set_xlabel("step")
    _title(axes[0, 0], results, "training loss")
    save(pyplot, figure, path)
    last = "; ".join(f"{name} {curve[1][-1]:.2f}" for name, curve in curves.items())
    title = "Training loss, mean over seeds; the band is the seeds' range"
    return Figure(path, title, f"Loss curves. Last losses: {last}.")


def _mean_curve(results: Results, row: str) -> tuple[list[int], list[float], list[float], list[float]] | None:
    seeds = [dict(e.result["curves"].get("train", [])) for e in results.of(row) if e.result]
    seeds = [{int(step): loss for step, loss in seed.items() if finite(loss)} for seed in seeds]
    steps = sorted(set.intersection(*map(set, seeds))) if seeds else []
    if not steps:
        return None
    at = [[seed[step] for seed in seeds] for step in steps]
    return steps, [statistics.fmean(v) for v in at], [min(v) for v in at], [max(v) for v in at]


def by_row(column: Column, printed: str = "") -> Callable[[Results, Path], Figure | None]:
    """A function for `Study.figures` that draws a column over the range of its values, in a file named after its key.

    ``printed`` is the column of the study's CSV with published numbers, which are drawn below ours.
    """

    def drawn(results: Results, folder: Path) -> Figure | None:
        path = folder / f"{column.key.split('.')[1]}.png"
        return _by_row(canvas(), results, column, path, from_zero=False, printed=printed)

    return drawn


def _by_row(
    pyplot: Any, results: Results, column: Column, path: Path, *, from_zero: bool = True, printed: str = ""
) -> Figure | None:
    """Draws one number for each row, with an error bar of one sample standard deviation and a cross for each seed.

    Diamonds are published numbers, and dashed lines are floors.
    """
    cells = [(row.name, cell) for row in results.rows if (cell := results.cell(row.id, column)).values]
    cells = [(name, cell) for name, cell in cells if all(map(finite, cell.values))]
    if not cells:
        return None
    theirs = _printed(results, printed)
    figure, axis = pyplot.subplots(figsize=(9, 1.2 + 0.42 * (len(cells) + len(theirs))))
    for place, (_, cell) in enumerate(cells):
        style = {"fmt": "o", "color": "#0072B2", "ecolor": "#333333", "capsize": 5, "zorder": 3}
        axis.errorbar(cell.mean, place, xerr=cell.deviation, **style)
        axis.plot(cell.values, [place] * len(cell.values), "x", color="#D55E00", markersize=6, zorder=4)
    for place, number in enumerate(theirs.values(), start=len(cells)):
        axis.plot(number, place, "D", color="#009E73", markersize=6)
    for (name, number), style in zip(_floor_lines(results, column).items(), itertools.cycle(_LINES[1:]), strict=False):
        axis.axvline(number, color="#D55E00", linestyle=style, linewidth=1.2, label=f"{name}: {number:.2f}")
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1.0))
    names = [*(name for name, _ in cells), *(f"{name} (printed)" for name in theirs)]
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    if from_zero:
        axis.set_xlim(left=min(0.0, axis.get_xlim()[0]))
    axis.set_xlabel(f"{column.title}: mean and standard deviation; a cross for each seed")
    axis.set_title(f"{results.study.name} · {results.scale}", loc="right", fontsize=10)
    save(pyplot, figure, path)
    texts = "; ".join(f"{name} {cell.text}" for name, cell in cells)
    return Figure(path, f"{column.title} by row", f"{column.title} by row: {texts}.")


def _printed(results: Results, name: str) -> dict[str, float]:
    """Name -> published number, for each row with a cell in this column of the study's CSV."""
    cells = published(results.study, results.scale) if name else {}
    return {row.name: float(cells[row.id][name]) for row in results.rows if name in cells.get(row.id, {})}


def _floor_lines(results: Results, column: Column) -> dict[str, float]:
    """Name -> number of each floor of a column: from floors that are trials, else from those that evaluations store."""
    found = {name: numbers[column.key] for name, numbers in floors.lines(results.floors) if column.key in numbers}
    for metric, floor in stored_floors() if not found else ():
        if column.key == f"evaluate.{metric.name}":
            below = [x for row in results.rows for x in results.values(row.id, f"evaluate.{floor.stored}")]
            if below:
                found[floor.said] = statistics.fmean(below)
    return found


def _against(pyplot: Any, results: Results, column: Column, path: Path) -> Figure | None:
    """Draws a measured number against the study's axis, both logarithmic, with the fitted power."""
    lines = {}
    for row in results.rows:
        cells = [(point, results.cell(row.id, column, point)) for point in results.points]
        cells = [(point, cell) for point, cell in cells if cell.mean is not None and cell.mean > 0]
        if cells:
            lines[row.name] = cells
    if not lines:
        return None
    figure, axis = pyplot.subplots(figsize=(9, 5))
    said = []
    for (name, cells), style in zip(lines.items(), styles(), strict=False):
        points, means = [point for point, _ in cells], [cell.mean for _, cell in cells if cell.mean is not None]
        power = exponent(points, means)
        label = name if power is None else f"{name}: ~ {results.study.axis_name or results.study.axis}^{power:.2f}"
        low, high = [min(c.values) for _, c in cells], [max(c.values) for _, c in cells]
        axis.plot(points, means, label=label, linewidth=1.4, markersize=6, **style)
        axis.fill_between(points, low, high, color=style["color"], alpha=0.15, linewidth=0)
        said.append(label)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(results.points, [f"{point:,}" for point in results.points])
    axis.minorticks_off()
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_xlabel(results.study.axis)
    axis.set_ylabel(column.title)
    axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), title="fitted power over all points")
    _title(axis, results, column.title)
    save(pyplot, figure, path)
    title = f"{column.title} against {results.study.axis}, both logarithmic"
    return Figure(path, title, f"{title}. Fitted powers: {'; '.join(said)}.")


def _title(axis: Any, results: Results, what: str) -> None:
    axis.set_title(f"{results.study.name} · {results.scale} · {what}", loc="left", fontsize=11)


def save(pyplot: Any, figure: Any, path: Path) -> None:
    """Writes a figure to a file of limited size, and closes it."""
    picture_file.save(figure, path, bbox_inches="tight")
    pyplot.close(figure)
