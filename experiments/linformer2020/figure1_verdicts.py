"""The verdict and the figure of `linformer2020/figure1`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from attention_research.studies.figures import Figure, canvas, caption, legend, save, styles_of
from attention_research.studies.results import Results
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED, Verdict

#: A map counts as close to low rank if at most this share of its singular values makes up 90 % of their sum.
LOW = 0.25
RANK = "measure.rank"
#: The row of a published model.
IMPORTED = "minilm"


def low_rank(results: Results) -> Verdict:
    """The mean share of the imported encoder is low.

    The text also gives the share before training and by layer, and those of the model trained here. The verdict does
    not use the latter, because no score says whether it has learned its task.
    """
    said, ranks = [], results.values(IMPORTED, RANK)
    for row in results.rows:
        if not results.values(row.id, RANK):
            continue
        before = results.mean(row.id, "measure.initial_rank") or 0.0
        layers = ", ".join(f"{value:.2f}" for value in results.mean_list(row.id, "measure.ranks"))
        name = row.name if row.id == IMPORTED else f"for comparison, {row.name}"
        said.append(f"{name}: share of values for 90 % of the sum {results.mean(row.id, RANK):.2f}, before training "
                    f"{before:.2f}; by layer {layers}")  # fmt: skip
    if not ranks:
        return Verdict(UNTESTED, ["the imported encoder's spectrum is not measured", *said])
    return Verdict(HELD if max(ranks) <= LOW else FAILED, said)


def draw(results: Results, folder: Path) -> Figure | None:
    """Draws the mean curve of each layer, one panel per model; solid after training, dashed before."""
    rows = [row for row in results.rows if results.values(row.id, RANK)]
    if not rows:
        return None
    pyplot, said = canvas(), []
    figure, axes = pyplot.subplots(1, len(rows), figsize=(5 * len(rows), 4.6), sharey=True, squeeze=False)
    for axis, row in zip(axes[0], rows, strict=True):
        curves, initial = (np.mean(results.values(row.id, f"measure.{name}"), axis=0)
                           for name in ("curves", "initial_curves"))  # fmt: skip
        places = np.linspace(0, 1, curves.shape[1])
        looks = styles_of(["before", *(f"layer {layer}" for layer in range(1, 1 + len(curves)))])
        for layer, curve in enumerate(curves, 1):
            name = f"layer {layer}"
            axis.plot(places, curve, label=name, **{**looks[name], "marker": None, "linestyle": "-"})
        axis.plot(places, initial.mean(axis=0), "--", color="black", linewidth=1.6, label="before training, all layers")
        axis.axhline(0.9, color="grey", linewidth=1, label="90 % of the sum")
        axis.set_title(row.name, loc="left", fontsize=11)
        axis.set_xlabel("share of singular values, from the largest")
        said.append(f"{row.name} {results.mean(row.id, RANK):.2f}")
    axes[0, 0].set_ylabel("share of the sum of singular values")
    legend(figure)
    where = folder / "spectrum.png"
    save(figure, where, caption(results, "lines: mean over heads, texts and seeds", rows=[row.id for row in rows]))
    return Figure(where, "Spectra of attention maps", f"Share of values for 90 % of the sum: {'; '.join(said)}.")
