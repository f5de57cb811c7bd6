"""The figures of the tables of Shaw et al. 2018."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from attention_research.studies.figures import COLOURS, PUBLISHED, Figure, canvas, caption, legend, rows_as_points, save
from attention_research.studies.results import Results, published

from .verdicts import BLEU, DISTANCES, PERPLEXITY, PRINTED

PANELS = ((PERPLEXITY, "perplexity per word piece"), (BLEU, "BLEU"))
THEIRS = "published BLEU,\nWMT 2014 English to German"


def _printed(results: Results, row: str) -> list[float]:
    cells = published(results.study).get(row, {})
    return [float(cells[PRINTED])] if PRINTED in cells else []


def draw_rows(results: Results, folder: Path) -> Figure | None:
    """Draws the perplexity and BLEU of every row, one point per seed and a bar at the mean, and the published BLEU."""
    rows = [row for row in results.rows if results.values(row.id, PERPLEXITY)]
    if not rows:
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 1.6 + 0.42 * len(rows)), sharey=True)
    for axis, (key, title) in zip(axes, PANELS, strict=False):
        rows_as_points(axis, {row.name: results.values(row.id, key) for row in rows})
        axis.set_xlabel(title)
    for place, row in enumerate(rows):
        axes[2].plot(_printed(results, row.id), [place] * len(_printed(results, row.id)), "D", color=PUBLISHED)
    axes[2].set_xlabel(THEIRS)
    where = folder / "rows.png"
    save(figure, where, caption(results, "points: seeds, bars: mean", rows=[row.id for row in rows]))
    said = "; ".join(f"{row.name} {statistics.fmean(results.values(row.id, PERPLEXITY)):.1f}" for row in rows)
    return Figure(where, "Perplexity and BLEU by row, and the published BLEU", f"Perplexity: {said}.")


def draw_clipping(results: Results, folder: Path) -> Figure | None:
    """Draws perplexity and BLEU of every seed against k, and the published BLEU against k."""
    there = [k for k in DISTANCES if results.values(f"k_{k}", PERPLEXITY)]
    if not there:
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 4))
    for axis, (key, title) in zip(axes, PANELS, strict=False):
        found = {k: values for k in there if (values := results.values(f"k_{k}", key))}
        for k, values in found.items():
            axis.plot(
                [DISTANCES.index(k)] * len(values),
                values,
                "o",
                color=COLOURS[1],
                alpha=0.7,
                markersize=6,
                label="seeds",
            )
        axis.plot([DISTANCES.index(k) for k in found], list(map(statistics.fmean, found.values())), color=COLOURS[0],
                  label="mean over seeds")  # fmt: skip
        axis.set_ylabel(title)
    printed = {k: values[0] for k in DISTANCES if (values := _printed(results, f"k_{k}"))}
    axes[2].plot(
        [DISTANCES.index(k) for k in printed], list(printed.values()), "D-", color=PUBLISHED, label="published"
    )
    axes[2].set_ylabel(THEIRS)
    for axis in axes:
        _distances(axis)
    legend(figure)
    where = folder / "clipping.png"
    save(figure, where, caption(results, "one published BLEU per distance", rows=[f"k_{k}" for k in there]))
    said = "; ".join(f"k = {k} {statistics.fmean(results.values(f'k_{k}', PERPLEXITY)):.1f}" for k in there)
    return Figure(where, "Perplexity and BLEU by clipping distance", f"Perplexity: {said}.")


def _distances(axis: Any) -> None:
    axis.set_xticks(range(len(DISTANCES)), list(map(str, DISTANCES)))
    axis.set_xlim(-0.5, len(DISTANCES) - 0.5)
    axis.set_xlabel("clipping distance k")
