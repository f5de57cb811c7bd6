"""The figures of `lectures/positions`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from attention_research.studies.figures import COLOURS, Figure, canvas, save
from attention_research.studies.results import Results


def draw_sinusoid(results: Results, folder: Path) -> Figure | None:
    """Draws the heat map of the sinusoid, the bits of a counter, the dot products by offset, and the sign changes."""
    if not results.values("sinusoid", "measure.heat"):
        return None
    one = lambda name: results.values("sinusoid", f"measure.{name}")[0]
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, 5, figsize=(20, 4), width_ratios=(1.5, 0.6, 1, 1.1, 1.1))
    axes[0].imshow(one("heat"), aspect="auto", cmap="RdBu", vmin=-1, vmax=1, interpolation="nearest")
    axes[0].set(xlabel="feature", ylabel="step")
    axes[1].imshow(one("bits"), aspect="auto", cmap="Greys", interpolation="nearest")
    axes[1].set(xlabel="bit", ylabel="step")
    codes = np.asarray(one("heat"))
    axes[2].imshow(codes @ codes.T, cmap="viridis", interpolation="nearest")
    axes[2].set(xlabel="step", ylabel="step")
    axes[3].plot(one("by_offset"), color=COLOURS[1])
    axes[3].set(xlabel="offset", ylabel="dot product")
    for name, label, marker in (("changes", "sinusoid, sines", "o"), ("changes_of_bits", "bits", "s")):
        axes[4].plot(range(len(one(name))), one(name), marker=marker, markersize=4, linestyle="none", label=label)
    axes[4].set_yscale("symlog", base=2)
    axes[4].set(xlabel="feature or bit, fastest first", ylabel="sign changes in 1,024 steps")
    axes[4].legend(fontsize=9)
    for axis in axes[:3]:
        axis.grid(visible=False)
    titles = ("sinusoid", "bits of a counter", "dot products", "dot products by offset", "sign changes")
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title, loc="left", fontsize=11)
    where = folder / "sinusoid.png"
    save(pyplot, figure, where)
    products = one("by_offset")
    said = ", ".join(f"{products[offset]:.1f}" for offset in (0, 1, 10, 100) if offset < len(products))
    varies = f"largest variation along a diagonal {one('diagonal_variation'):.0e}"
    return Figure(
        where, "The sinusoid and a binary counter", f"Dot products at offsets 0, 1, 10, 100: {said}; {varies}."
    )


def draw_codes(results: Results, folder: Path) -> Figure | None:
    """Draws the properties of the encodings: one panel per property and one bar per encoding."""
    rows = [row for row in results.rows if results.values(row.id, "measure.smallest_distance")]
    if not rows:
        return None
    panels = {
        "smallest_distance": "smallest distance of two steps",
        "inconsistency": "variation of distance at one offset",
        "largest": "largest value",
    }
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, len(panels), figsize=(13, 3.2), sharey=True)
    for axis, (name, title) in zip(axes, panels.items(), strict=True):
        values = [results.mean(row.id, f"measure.{name}") for row in rows]
        axis.barh(range(len(rows)), values, color=COLOURS[1], height=0.6)
        for place, value in enumerate(values):
            axis.text(value, place, f" {value:.3g}", va="center", fontsize=9)
        axis.set_yticks(range(len(rows)), [row.name for row in rows])
        axis.set_title(title, loc="left", fontsize=11)
        axis.margins(x=0.25)
        axis.grid(axis="y", visible=False)
    axes[2].set_xscale("symlog")
    axes[0].invert_yaxis()
    where = folder / "codes.png"
    save(pyplot, figure, where)
    mean = lambda row, name: results.mean(row.id, f"measure.{name}")
    of_row = lambda row: ", ".join(f"{title} {mean(row, name):.3g}" for name, title in panels.items())
    said = "; ".join(f"{row.name}: {of_row(row)}" for row in rows)
    return Figure(where, "Properties of position encodings", f"{said}.")
