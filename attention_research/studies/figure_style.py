"""The style of figures: colours, markers and dashes for each line, one legend for all panels, and the canvas.

A line keeps its style in all panels and figures of a study (`styles_of`, `row_styles`). Lines differ in marker and
dashes as well as in colour. matplotlib is installed with the extra ``report``.
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attention_research.errors import RunError

if TYPE_CHECKING:
    from attention_research.studies.results import Results

#: The colours of Okabe and Ito, which people with colour blindness can distinguish, and three more for many lines.
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#888888", "#882255", "#999933")
#: Means of rows that are compared by their place on an axis, their seeds, published numbers, and baselines.
MEAN, SEED, PUBLISHED, BASELINE = "#0072B2", "#56B4E9", "#D55E00", "#666666"
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p")
_LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)))

Style = dict[str, Any]


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
    pyplot.rcParams.update({"axes.axisbelow": True, "axes.titlelocation": "left", "axes.titlesize": 11})
    pyplot.rcParams.update({"figure.constrained_layout.use": True, "figure.constrained_layout.wspace": 0.05})
    return pyplot


def styles_of(names: Iterable[str]) -> dict[str, Style]:
    """Colour, marker and dashes of each name, as arguments of `plot`. Up to ten names differ in colour.

    >>> styles_of(["a", "b"])["b"]
    {'color': '#0072B2', 'marker': 's', 'linestyle': '--'}
    """
    pick = lambda cycle, number: cycle[number % len(cycle)]
    return {
        name: {"color": pick(COLOURS, n), "marker": pick(_MARKERS, n), "linestyle": pick(_LINES, n)}
        for n, name in enumerate(dict.fromkeys(names))
    }


def row_styles(results: Results, rows: Iterable[str] = ()) -> dict[str, Style]:
    """Row id -> style: the same in all figures of a study at a scale.

    `rows` are the ids that share a figure, by default all rows with trials, in the study's order.
    """
    wanted = set(rows) or {entry.trial.row for entry in results.entries}
    return styles_of(row.id for row in results.study.rows if row.id in wanted)


def legend(figure: Any, axes: Iterable[Any] | None = None, *, columns: int = 4, **options: Any) -> None:
    """Draws one legend below all panels, with each label once. `options` are passed to matplotlib's `legend`."""
    handles: dict[str, Any] = {}
    for axis in figure.axes if axes is None else axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    place = {"loc": "outside lower center", "ncols": max(1, min(columns, len(handles)))}
    figure.legend(list(handles.values()), list(handles), fontsize=9, **{**place, **options})


def mark_plainly(axis: Any, subs: Sequence[float] = (1, 2, 5)) -> None:
    """Puts the ticks of a logarithmic axis (`xaxis` or `yaxis`) at `subs` times powers of ten, as plain numbers."""
    axis.get_major_locator().set_params(subs=subs)
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1000 else f"{value:g}")
    axis.minorticks_off()


def rows_as_points(axis: Any, values: Mapping[str, Sequence[float]], names: Mapping[str, str] | None = None) -> None:
    """Draws each row as a line of the panel: a small circle for each seed, and a bar at their mean.

    `values` are the numbers of the seeds by row; a row without numbers keeps its place. `names` are printed instead of
    the keys.
    """
    for place, numbers in enumerate(values.values()):
        axis.plot(numbers, [place] * len(numbers), "o", color=SEED, markeredgecolor=MEAN, markersize=6, alpha=0.8)
        if numbers:
            axis.vlines(statistics.fmean(numbers), place - 0.3, place + 0.3, color="#000000", linewidth=1.6)
    axis.set_yticks(range(len(values)), [(names or {}).get(one, one) for one in values])
    axis.set_ylim(len(values) - 0.5, -0.5)


def groups_as_points(
    axis: Any, numbers: Mapping[str, Mapping[str, Sequence[float]]], styles: Mapping[str, Style], letters: int = 16
) -> None:
    """Draws groups side by side. In a group each series has its place: a mark for each seed, and a bar at their mean.

    `numbers` are the values of the seeds by group and series, and `styles` those of the series (`styles_of`). Names of
    groups are wrapped after about `letters` letters.
    """
    width, labelled = 0.8 / len(styles), set()
    for place, series in enumerate(numbers.values()):
        for number, (name, style) in enumerate(styles.items()):
            values = series.get(name, ())
            if not values:
                continue
            at = place + (number - (len(styles) - 1) / 2) * width
            mark = {"marker": style["marker"], "color": style["color"], "linestyle": "none", "markersize": 5.5}
            axis.plot([at] * len(values), values, alpha=0.75, label=None if name in labelled else name, **mark)
            axis.hlines(
                statistics.fmean(values), at - 0.42 * width, at + 0.42 * width, color=style["color"], linewidth=2
            )
            labelled.add(name)
    axis.set_xticks(range(len(numbers)), [textwrap.fill(group, letters) for group in numbers])
    axis.set_xlim(-0.5, len(numbers) - 0.5)
    axis.grid(axis="x", visible=False)
