"""The figures of `lei2016/rationales`: reviews with their marked words, and scores by the share of selected words.

This module reads the results of the rows and draws them. It defines no study.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention_research.studies.figures import Figure, canvas, caption, legend, mark_plainly, save, styles_of
from attention_research.studies.results import Results

#: The rows whose marks are drawn together -> their aspects.
ASPECTS = {"independent": "look", "smell": "smell", "palate": "palate"}


def reviews_of(results: Results, row: str) -> list[dict[str, Any]]:
    """Returns the output of `held_out` for seed 0 of a row, or an empty list."""
    return next(iter(results.values(row, "measure.reviews")), [])


def curve(results: Results, row: str) -> list[list[list[float]]]:
    """Returns, for each finished seed, the [share, precision] pairs of the words with the largest weights."""
    return [list(pairs) for pairs in results.values(row, "evaluate.precision_at")]


def per_seed(results: Results, row: str, name: str) -> list[Any]:
    """A number of the evaluation for each finished seed; None where a seed has none, as without a selected word."""
    return [entry.result["stages"]["evaluate"].get(name) for entry in results.of(row)
            if entry.result and "evaluate" in entry.result["stages"]]  # fmt: skip


def at_share(pairs: Sequence[Sequence[float]], share: float) -> float:
    """The precision at a share, by linear interpolation between measured ones.

    >>> at_share([[10.0, 80.0], [20.0, 60.0]], 15.0)
    70.0
    """
    for (low, high_precision), (high, low_precision) in zip(pairs, pairs[1:], strict=False):
        if low <= share <= high:
            return high_precision + (low_precision - high_precision) * (share - low) / (high - low)
    return pairs[0][1] if share < pairs[0][0] else pairs[-1][1]


def draw_reviews(results: Results, folder: Path) -> Figure | None:
    """Draws the same held-out reviews with the marks of three raters, one for each aspect."""
    by_row = {row: reviews_of(results, row) for row in ASPECTS}
    if not all(by_row.values()):
        return None
    panels = [
        ("generated review", [(ASPECTS[row], reviews[number]) for row, reviews in by_row.items()])
        for number in range(len(by_row["independent"]))
    ]
    return _drawn(
        results, panels, folder / "reviews.png", "Held-out reviews: selected words (framed), gold words (underlined)"
    )


def draw_real(results: Results, folder: Path) -> Figure | None:
    """Draws real sentences with the words selected by the generator and by soft attention."""
    rows = {"rationale": "real", "soft attention": "real_soft"}
    by_name = {name: reviews_of(results, row) for name, row in rows.items()}
    if not all(by_name.values()):
        return None
    panels = [
        ("Rotten Tomatoes", [(name, reviews[number]) for name, reviews in by_name.items()])
        for number in range(len(by_name["rationale"]))
    ]
    return _drawn(results, panels, folder / "real_reviews.png", "Held-out sentences: selected words (framed)")


def _drawn(
    results: Results, panels: list[tuple[str, list[tuple[str, dict[str, Any]]]]], path: Path, title: str
) -> Figure:
    from .rationale_page import Marked, Marks, figure_of

    drawn, said = [], []
    for what, raters in panels:
        marks = [Marks(name, *map(one.get, ("selected", "predicted", "rating", "gold"))) for name, one in raters]
        first = raters[0][1]
        drawn.append(Marked(f"{what} {first['id']}", first["words"], marks))
        for one in marks:
            words = [word for word, taken in zip(first["words"], one.selected, strict=True) if taken]
            said.append(f"{first['id']}, {one.said()}: {' '.join(words) or 'nothing'}")
    gold = ", underlined: gold words" if "underlined" in title else ""
    save(figure_of(drawn), path, caption(results, f"framed: selected words{gold}", seeds="1 seed"))
    return Figure(path, title, f"{title}. {'; '.join(said)}.")


def _name(row: Row) -> str:
    return row.name.removeprefix("real sentences: ").removeprefix("generator, ")


def draw_curves(results: Results, folder: Path) -> Figure | None:
    """Draws precision, squared error and, for real sentences, accuracy against the share of selected words.

    The top words of soft attention are drawn as a line.
    """
    generated = [row for row in results.rows if row.id not in ("svm", "correlated") and not row.id.startswith("real")]
    real = [row for row in results.rows if row.id.startswith("real")]
    panels = (
        ("precision", "generated reviews: precision, %", generated, ("independent", "random_precision")),
        ("mean_squared_error", "generated reviews: squared error", generated, ("independent", "constant_error")),
        ("accuracy", "real sentences: accuracy, %", real, ("real", "majority_accuracy")),
    )
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, len(panels), figsize=(11, 6.2))
    said, looks = [], styles_of(_name(row) for row in (*generated, *real))
    for axis, (key, title, rows, floor) in zip(axes, panels, strict=True):
        for row in rows:
            name = _name(row)
            style = looks[name]
            shares, values = (results.values(row.id, f"evaluate.{name}") for name in ("selected_share", key))
            if "soft" in row.id and key != "precision":  # it rates the whole text
                shares = (100.0,) * len(shares)
            if not values or len(shares) != len(values):
                continue
            line = curve(results, row.id) if row.id == "soft_attention" and key == "precision" else []
            if line:
                means = [[statistics.fmean(x) for x in zip(*at, strict=True)] for at in zip(*line, strict=True)]
                axis.plot(
                    *zip(*means, strict=True),
                    color=style["color"],
                    linewidth=1.2,
                    label="soft attention, more or fewer words",
                )
            axis.plot(
                shares, values, label=name, **{**style, "linestyle": "none"}, markersize=6, alpha=0.8, clip_on=False
            )
            said.append(f"{row.name}: {title} {statistics.fmean(values):.3g} at {statistics.fmean(shares):.1f} %")
        axis.set(xlabel="selected words, %", ylabel=title)
        axis.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0)), np.square))  # most lie below 20 %
        axis.set_xticks([0, 2, 5, 10, 20, 50, 100])
        axis.set_xlim(0, 110)
        if key == "mean_squared_error":
            axis.set_yscale("log")
            mark_plainly(axis.yaxis)
        if level := results.values(floor[0], f"evaluate.{floor[1]}"):
            axis.axhline(statistics.fmean(level), color="#888888", linestyle="--", linewidth=1,
                         label="random words, mean rating or majority class")  # fmt: skip
    if not said:
        pyplot.close(figure)
        return None
    legend(figure, columns=3)
    path = folder / "selection.png"
    save(figure, path, caption(results, "one mark per seed; the scale of selected words is that of square roots"))
    title = "Precision, error and accuracy by share of selected words; one mark per seed; dashed: random words, mean "
    title += "rating, majority class"
    return Figure(path, title, f"{title}. {'; '.join(said)}.")
