"""The figures of `lectures/agreement`."""

from __future__ import annotations

import statistics
from pathlib import Path

from attention_research.studies.figures import Figure, canvas, caption, groups_as_points, legend, save, styles_of
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
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4.3))
    for (row, name), style in zip(rows.items(), styles_of(rows).values(), strict=True):
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
    axes[0].axhline(0.5, color="#888888", linewidth=0.9, linestyle="--", label="guessing")
    axes[0].set_ylabel("share of articles with the right gender")
    axes[0].set_ylim(0, 1.02)
    axes[1].set_ylabel("attention from the article to its noun")
    axes[1].set_ylim(0, 1.02)
    for axis in axes:
        axis.set_xlabel("adjectives between article and noun")
    legend(figure)
    where = folder / "gender_by_distance.png"
    save(figure, where, caption(results, "lines: mean over seeds, bands: range of the seeds", rows=list(rows)))
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
    corpora = list(dict.fromkeys(ATTENDING[row].partition(", ")[2] for row in rows))
    figure, axes = pyplot.subplots(2, len(corpora), figsize=(9, 7), squeeze=False, sharey="row")
    looks = styles_of(f"{k} source word{'s' * (k > 1)}" for k in MOST)
    for column, corpus in zip(axes.T, corpora, strict=True):
        models = {row: name.partition(",")[0] for row, name in ATTENDING.items() if row in rows and corpus in name}
        for axis, key in zip(column, ("mass", "kept"), strict=True):
            groups_as_points(
                axis,
                {name: {look: results.values(row, f"measure.{key}_{k}") for look, k in zip(looks, MOST, strict=True)}
                 for row, name in models.items()},
                looks,
            )  # fmt: skip
            axis.set_title({"generated": "generated sentences", "verses": "Bible verses"}.get(corpus, corpus))
            axis.set_ylim(0, 1.04)
        for place, row in enumerate(models):
            even = [results.mean(row, f"measure.even_{k}") for k in MOST]
            column[0].plot([place + 0.27 * (k - 2) for k in MOST], even, "x", color="#666666",
                           label=None if place else "uniform weights")  # fmt: skip
    for row in rows:
        three = [results.mean(row, f"measure.{key}_3") for key in ("mass", "kept")]
        said.append(f"{ATTENDING[row]}: three words hold {three[0]:.0%}" + (
            f" and keep {three[1]:.0%} of the BLEU" if three[1] is not None else ""))  # fmt: skip
    axes[0, 0].set_ylabel("share of the attention weight\non the most attended words")
    axes[1, 0].set_ylabel("BLEU with only these words\n/ BLEU with all words")
    legend(figure)
    where = folder / "few_words.png"
    save(figure, where, caption(results, "one mark per seed, bars: mean", rows=rows))
    return Figure(where, "How many source words a target word needs", f"{'; '.join(said)}.")
