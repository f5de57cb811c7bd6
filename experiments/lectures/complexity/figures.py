"""The figures of `lectures/complexity`."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from attention_research.studies.figures import Figure, canvas, caption, legend, mark_plainly, row_styles, save
from attention_research.studies.results import Results


def draw_costs(results: Results, folder: Path) -> Figure | None:
    """Draws the time of forward and backward against the length, with one panel for each width, and the bytes."""
    rows = [row for row in results.rows if results.values(row.id, "measure.times")]
    if not rows:
        return None
    settings, pyplot = results.settings, canvas()
    lengths, widths = settings["lengths"], settings["widths"]
    figure, axes = pyplot.subplots(1, len(widths) + 1, figsize=(11, 5))
    looks = row_styles(results, [row.id for row in rows])
    for row in rows:
        style = {**looks[row.id], "linewidth": 1.4, "markersize": 5}
        runs = results.values(row.id, "measure.times")
        for number, axis in enumerate(axes[:-1]):
            axis.plot(
                lengths, [statistics.fmean(at) for at in zip(*(run[number] for run in runs), strict=True)], **style
            )
        held = results.values(row.id, "measure.bytes")[0]
        axes[-1].plot(lengths, [size / 1e6 for size in held], label=row.name, **style)
    for axis, title in zip(
        axes, (*(f"milliseconds, width {d:,}" for d in widths), f"megabytes, width {widths[-2]}"), strict=True
    ):
        _logarithmic(axis, title)
        axis.set_xticks(lengths, [f"{length:,}" for length in lengths])
    legend(figure, columns=3)
    where = folder / "costs.png"
    save(
        figure,
        where,
        caption(results, "forward and backward pass of one layer; lines: mean over seeds", rows=list(looks)),
    )
    said = "; ".join(f"{row.name} ms ~ T^{results.values(row.id, 'measure.time_length_power')[0]:.2f}" for row in rows)
    return Figure(where, "Time of forward and backward by length", f"At the largest width: {said}.")


def _logarithmic(axis: Any, title: str) -> None:
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    mark_plainly(axis.yaxis, (1,))
    axis.set_xlabel("length, positions")
    axis.set_title(title, fontsize=10)


def draw_shares(results: Results, folder: Path) -> Figure | None:
    """Draws the shares of scores and sums, and of the rest of attention, in a block, by model size and by length."""
    share = lambda row, name: results.values(row.id, f"measure.{name}")
    rows = [row for row in results.rows if share(row, "scores")]
    if not rows:
        return None
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(8, 0.4 * len(rows) + 1.6))
    for place, row in enumerate(reversed(rows)):
        scores, attention = (100 * statistics.fmean(share(row, name)) for name in ("scores", "attention"))
        axis.barh(place, scores, color="#D55E00", label="scores and weighted sums" if not place else None)
        axis.barh(place, attention - scores, left=scores, color="#56B4E9", label="projections" if not place else None)
        axis.barh(place, 100 - attention, left=attention, color="#dddddd", label="feed-forward" if not place else None)
        axis.text(scores + 0.8, place, f"{scores:.1f}", va="center", fontsize=9)
    axis.set_yticks(range(len(rows)), [row.name for row in reversed(rows)])
    axis.set_xlabel("share of the multiply-adds of a block, %")
    axis.set_xlim(0, 100)
    axis.grid(axis="y", visible=False)
    legend(figure)
    where = folder / "shares.png"
    save(
        figure,
        where,
        caption(results, "counted from the shapes of the model", seeds="no training", rows=[row.id for row in rows]),
    )
    said = "; ".join(f"{row.name} {100 * statistics.fmean(share(row, 'scores')):.1f} %" for row in rows)
    return Figure(where, "The share of scores and weighted sums in a block", f"{said}.")
