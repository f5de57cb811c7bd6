"""The figures of `lectures/positions`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from attention_research.studies.figures import COLOURS, Figure, canvas, caption, legend, save
from attention_research.studies.results import Results


def draw_sinusoid(results: Results, folder: Path) -> Figure | None:
    """Draws the heat map of the sinusoid, the bits of a counter, the dot products by offset, and the sign changes."""
    if not results.values("sinusoid", "measure.heat"):
        return None
    one = lambda name: results.values("sinusoid", f"measure.{name}")[0]
    pyplot = canvas()
    figure = pyplot.figure(figsize=(10.5, 7))
    grid = figure.add_gridspec(2, 12)
    places = ((0, slice(0, 6)), (0, slice(6, 8)), (0, slice(8, 12)), (1, slice(0, 6)), (1, slice(6, 12)))
    axes = [figure.add_subplot(grid[place]) for place in places]
    axes[0].imshow(one("heat"), aspect="auto", cmap="RdBu", vmin=-1, vmax=1, interpolation="nearest")
    axes[0].set(xlabel="feature", ylabel="position")
    axes[1].imshow(one("bits"), aspect="auto", cmap="Greys", interpolation="nearest")
    axes[1].set(xlabel="bit", ylabel="position")
    codes = np.asarray(one("heat"))
    axes[2].imshow(codes @ codes.T, cmap="viridis", interpolation="nearest")
    axes[2].set(xlabel="position", ylabel="position")
    axes[3].plot(one("by_offset"), color=COLOURS[1])
    axes[3].set(xlabel="offset between two positions", ylabel="dot product of encodings")
    pairs = (("changes", "sines of the sinusoid", "o"), ("changes_of_bits", "bits of a counter", "s"))
    for number, (name, label, marker) in enumerate(pairs, 1):
        style = {"marker": marker, "markersize": 4, "linestyle": "none", "color": COLOURS[number]}
        axes[4].plot(range(len(one(name))), one(name), label=label, **style)
    axes[4].set_yscale("symlog", base=2)
    axes[4].set(xlabel="feature or bit, fastest first", ylabel="sign changes in 1,024 positions")
    legend(figure)
    for axis in axes[:3]:
        axis.grid(visible=False)
    titles = (
        "sinusoid: red -1, blue 1",
        "bits: black 1",
        "dot products: yellow is largest",
        "dot products by offset",
        "sign changes",
    )
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title, loc="left", fontsize=11)
    where = folder / "sinusoid.png"
    save(figure, where, caption(results, "computed, without training", seeds="no seeds"))
    products = one("by_offset")
    said = ", ".join(f"{products[offset]:.1f}" for offset in (0, 1, 10, 100) if offset < len(products))
    varies = f"largest variation along a diagonal {one('diagonal_variation'):.0e}"
    return Figure(
        where, "The sinusoid and a binary counter", f"Dot products at offsets 0, 1, 10, 100: {said}; {varies}."
    )


def _said(value: float) -> str:
    """The number in words; a rounding error is 0."""
    return "0" if value < 1e-6 else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def draw_codes(results: Results, folder: Path) -> Figure | None:
    """Draws the properties of the encodings: one panel per property and one bar per encoding."""
    rows = [row for row in results.rows if results.values(row.id, "measure.smallest_distance")]
    if not rows:
        return None
    panels = {
        "smallest_distance": "smallest distance\nbetween two positions",
        "inconsistency": "variation of the distance\nat one offset",
        "largest": "largest value",
    }
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, len(panels), figsize=(10, 3.4), sharey=True)
    for axis, (name, title) in zip(axes, panels.items(), strict=True):
        values = [results.mean(row.id, f"measure.{name}") for row in rows]
        axis.barh(range(len(rows)), values, color=COLOURS[1], height=0.6)
        for place, value in enumerate(values):
            axis.text(value, place, f" {_said(value)}", va="center", fontsize=9)
        axis.set_yticks(range(len(rows)), [row.name for row in rows])
        axis.set_title(title, fontsize=10)
        axis.margins(x=0.3)
        axis.grid(axis="y", visible=False)
    axes[2].set_xscale("symlog")
    axes[2].set_xticks([0, 1, 100, 10_000], ["0", "1", "100", "10,000"])
    axes[0].invert_yaxis()
    where = folder / "codes.png"
    save(figure, where, caption(results, "bars: mean over seeds", rows=[row.id for row in rows]))
    mean = lambda row, name: results.mean(row.id, f"measure.{name}")
    of_row = lambda row: ", ".join(f"{' '.join(title.split())} {mean(row, name):.3g}" for name, title in panels.items())
    said = "; ".join(f"{row.name}: {of_row(row)}" for row in rows)
    return Figure(where, "Properties of position encodings", f"{said}.")
