"""The figures of `lectures/agreement`."""

from __future__ import annotations

import statistics
from pathlib import Path

from attention_research.studies.figures import COLOURS, Figure, canvas, save, styles
from attention_research.studies.results import Results

from .verdicts import ATTENDING, MOST

GENDER = {
    "encdec_generated": "RNNencdec (fixed vector)",
    "rnnsearch_generated": "RNNsearch",
    "transformer_generated": "Transformer",
}


def draw_distances(results: Results, folder: Path) -> Figure | None:
    """Draws how often the gender is right, and the article's attention to its noun, by the number of words between.

    The bands show the range over seeds.
    """
    rows = {row: name for row, name in GENDER.items() if results.values(row, "measure.gender_by_distance")}
    if not rows:
        return None
    pyplot, said = canvas(), []
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4))
    for (row, name), style in zip(rows.items(), styles(), strict=False):
        distances = results.values(row, "measure.distances")[0]
        for axis, key in zip(axes, ("gender_by_distance", "noun_mass"), strict=True):
            curves = results.values(row, f"measure.{key}")
            if not any(any(curve) for curve in curves):  # a fixed vector attends to nothing
                continue
            at = list(zip(*curves, strict=True))
            mean = [statistics.fmean(values) for values in at]
            axis.plot(distances, mean, label=name, linewidth=1.4, markersize=5, **style)
            axis.fill_between(distances, [min(v) for v in at], [max(v) for v in at], color=style["color"], alpha=0.15,
                              linewidth=0)  # fmt: skip
            if key == "gender_by_distance":
                said.append(f"{name} {mean[0]:.0%} to {mean[-1]:.0%}")
    axes[0].axhline(0.5, color="#888888", linewidth=0.9, linestyle="--")
    axes[0].set_ylabel("share of articles with the right gender")
    axes[0].set_ylim(0, 1.02)
    axes[1].set_ylabel("attention from the article to its noun")
    axes[1].set_ylim(0, 1.02)
    for axis in axes:
        axis.set_xlabel("adjectives between article and noun")
        if axis.get_legend_handles_labels()[0]:
            axis.legend(loc="best", fontsize=9)
    where = folder / "gender_by_distance.png"
    save(pyplot, figure, where)
    return Figure(
        where,
        "An article's gender by the distance of its noun",
        f"Right from the nearest to the farthest noun: {'; '.join(said)}.",
    )


def draw_few(results: Results, folder: Path) -> Figure | None:
    """Draws the mass of the largest weights, and BLEU with only these weights, with one group of bars per model."""
    rows = [row for row in ATTENDING if results.values(row, "measure.mass_1")]
    if not rows:
        return None
    pyplot, said = canvas(), []
    figure, axes = pyplot.subplots(1, 2, figsize=(12, 4))
    for place, row in enumerate(rows):
        for axis, key in zip(axes, ("mass", "kept"), strict=True):
            for k, colour in zip(MOST, COLOURS[1:], strict=False):
                values = results.values(row, f"measure.{key}_{k}")
                if values:
                    label = f"{k} source word{'s' * (k > 1)}" if place == 0 else None
                    axis.bar(place + 0.27 * (k - 2), statistics.fmean(values), 0.25, color=colour, label=label)
                    axis.plot([place + 0.27 * (k - 2)] * len(values), values, "x", color="#333333", markersize=4)
        even = [results.mean(row, f"measure.even_{k}") for k in MOST]
        axes[0].plot([place + 0.27 * (k - 2) for k in MOST], even, "_", color="#333333", markersize=16)
        three = [results.mean(row, f"measure.{key}_3") for key in ("mass", "kept")]
        said.append(f"{ATTENDING[row]}: three words hold {three[0]:.0%}" + (
            f" and keep {three[1]:.0%} of the BLEU" if three[1] is not None else ""))  # fmt: skip
    axes[0].set_ylabel("attention mass (horizontal marks: uniform weights)")
    axes[1].set_ylabel("BLEU with only these weights / BLEU with all")
    for axis in axes:
        axis.set_axisbelow(True)
        axis.set_xticks(range(len(rows)), [ATTENDING[row].replace(", ", "\n") for row in rows])
    axes[0].set_ylim(0, 1.02)
    axes[0].legend(loc="upper right", fontsize=9)
    where = folder / "few_words.png"
    save(pyplot, figure, where)
    return Figure(where, "How many source words a target word needs", f"{'; '.join(said)}.")
