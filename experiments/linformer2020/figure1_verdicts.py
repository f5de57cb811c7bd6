"""The verdict and the picture of `linformer2020/figure1`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from attention_research.studies.figures import Figure, canvas, save, styles
from attention_research.studies.results import Results
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, Verdict

#: A map is near to low rank where so small a share of its singular values holds nine tenths of their sum.
LOW = 0.25
RANK = "measure.rank"


def low_rank(results: Results) -> Verdict:
    """In every seed of every model the mean share is low; beside it what it was before training, by layer."""
    said, low, lower = [], [], []
    for row in results.rows:
        ranks = results.values(row.id, RANK)
        if not ranks:
            continue
        low.append(max(ranks) <= LOW)
        before = results.mean(row.id, "measure.initial_rank") or 0.0
        lower.append(max(ranks) < before)
        layers = ", ".join(f"{value:.2f}" for value in results.mean_list(row.id, "measure.ranks"))
        said.append(f"{row.name}: 90 % of the sum in {results.mean(row.id, RANK):.2f} of the values, before training "
                    f"{before:.2f}; by layer {layers}")  # fmt: skip
    if not said:
        return Verdict(UNTESTED, "no spectrum is measured")
    said.append(f"lower than before training in {sum(lower)} of {len(lower)} models")
    return Verdict(HELD if all(low) else CONDITION if any(low) else FAILED, "; ".join(said))


def draw(results: Results, folder: Path) -> Figure | None:
    """The mean curve of each layer, a panel a model: solid trained, dashed before."""
    rows = [row for row in results.rows if results.values(row.id, RANK)]
    if not rows:
        return None
    pyplot, said = canvas(), []
    figure, axes = pyplot.subplots(1, len(rows), figsize=(5.4 * len(rows), 4.2), sharey=True, squeeze=False)
    for axis, row in zip(axes[0], rows, strict=True):
        curves, initial = (np.mean(results.values(row.id, f"measure.{name}"), axis=0)
                           for name in ("curves", "initial_curves"))  # fmt: skip
        places = np.linspace(0, 1, curves.shape[1])
        for layer, (curve, look) in enumerate(zip(curves, styles(), strict=False), 1):
            axis.plot(places, curve, label=f"layer {layer}", **{**look, "marker": None, "linestyle": "-"})
        axis.plot(places, initial.mean(axis=0), "--", color="black", label="before training, all layers")
        axis.axhline(0.9, color="grey", linewidth=1)
        axis.set_title(row.name, loc="left", fontsize=11)
        axis.set_xlabel("share of singular values, from the largest")
        axis.legend(frameon=False, fontsize=8)
        said.append(f"{row.name} {results.mean(row.id, RANK):.2f}")
    axes[0, 0].set_ylabel("share of their sum")
    where = folder / "spectrum.png"
    save(pyplot, figure, where)
    return Figure(where, "Spectra of attention maps", f"Values for 90 % of the sum: {'; '.join(said)}.")
