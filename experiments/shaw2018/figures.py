"""The figures of the tables of Shaw et al. 2018."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from attention_research.studies.figures import COLOURS, Figure, canvas, save
from attention_research.studies.results import Results, published

from .verdicts import BLEU, DISTANCES, PERPLEXITY, PRINTED

PANELS = ((PERPLEXITY, "perplexity per word piece"), (BLEU, "BLEU"))


def _printed(results: Results, row: str) -> list[float]:
    cells = published(results.study).get(row, {})
    return [float(cells[PRINTED])] if PRINTED in cells else []


def draw_rows(results: Results, folder: Path) -> Figure | None:
    """Draws the perplexity and BLEU of every row, one point per seed and a bar at the mean, and the published BLEU."""
    rows = [row for row in results.rows if results.values(row.id, PERPLEXITY)]
    if not rows:
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 1.2 + 0.5 * len(rows)), sharey=True)
    for axis, (key, title) in zip(axes, PANELS, strict=False):
        for place, row in enumerate(rows):
            values = results.values(row.id, key)
            axis.plot(values, [place] * len(values), "o", color=COLOURS[1], alpha=0.7, markersize=6)
            if values:
                axis.vlines(statistics.fmean(values), place - 0.3, place + 0.3, color=COLOURS[0])
        axis.set_title(f"{title}, {results.scale}", loc="left", fontsize=11)
    for place, row in enumerate(rows):
        axes[2].plot(_printed(results, row.id), [place] * len(_printed(results, row.id)), "D", color=COLOURS[2])
    axes[2].set_title("BLEU En-De, published", loc="left", fontsize=11)
    axes[0].set_yticks(range(len(rows)), [row.name for row in rows])
    axes[0].set_ylim(len(rows) - 0.5, -0.5)
    where = folder / "rows.png"
    save(pyplot, figure, where)
    said = "; ".join(f"{row.name} {statistics.fmean(results.values(row.id, PERPLEXITY)):.1f}" for row in rows)
    return Figure(where, "Perplexity and BLEU by row, and the published BLEU", f"Perplexity: {said}.")


def draw_clipping(results: Results, folder: Path) -> Figure | None:
    """Draws perplexity and BLEU of every seed against k, and the published BLEU against k."""
    there = [k for k in DISTANCES if results.values(f"k_{k}", PERPLEXITY)]
    if not there:
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 3.6))
    for axis, (key, title) in zip(axes, PANELS, strict=False):
        found = {k: values for k in there if (values := results.values(f"k_{k}", key))}
        for k, values in found.items():
            axis.plot([DISTANCES.index(k)] * len(values), values, "o", color=COLOURS[1], alpha=0.7, markersize=6)
        axis.plot([DISTANCES.index(k) for k in found], list(map(statistics.fmean, found.values())), color=COLOURS[0])
        axis.set_title(f"{title}, {results.scale}", loc="left", fontsize=11)
    printed = {k: values[0] for k in DISTANCES if (values := _printed(results, f"k_{k}"))}
    axes[2].plot([DISTANCES.index(k) for k in printed], list(printed.values()), "D-", color=COLOURS[2])
    axes[2].set_title("BLEU En-De, published", loc="left", fontsize=11)
    for axis in axes:
        _distances(axis)
    where = folder / "clipping.png"
    save(pyplot, figure, where)
    said = "; ".join(f"k = {k} {statistics.fmean(results.values(f'k_{k}', PERPLEXITY)):.1f}" for k in there)
    return Figure(where, "Perplexity and BLEU by clipping distance", f"Perplexity: {said}.")


def _distances(axis: Any) -> None:
    axis.set_xticks(range(len(DISTANCES)), list(map(str, DISTANCES)))
    axis.set_xlim(-0.5, len(DISTANCES) - 0.5)
    axis.set_xlabel("k")
