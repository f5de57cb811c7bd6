"""The figure of `lectures/identity`."""

from __future__ import annotations

import math
from pathlib import Path

from attention_research.studies.figures import COLOURS, Figure, canvas, caption, legend, mark_plainly, save
from attention_research.studies.results import Results

from .fitting import ACTIVATIONS
from .verdicts import ARMS, TARGETS, by_depth, middle, settings


def draw_errors(results: Results, folder: Path) -> Figure | None:
    """Draws the error against depth for both targets, and the updates to the tolerance.

    Solid lines are plain stacks, dashed lines have shortcuts, and each activation has a colour. The bands show the
    range over seeds.
    """
    rows = [row.id for row in results.rows if results.values(row.id, "measure.identity_errors")]
    if not rows:
        return None
    sizes, pyplot = settings(results), canvas()
    depths = sizes["depths"]
    figure, axes = pyplot.subplots(1, 3, figsize=(10.5, 4.3))
    panels = ("identity_errors", "near_errors", "identity_steps")
    for activation, colour in zip(ACTIVATIONS, COLOURS[1:], strict=False):
        for arm, residual in ARMS.items():
            row = f"{arm}_{activation}"
            if row not in rows:
                continue
            style = {"color": colour, "marker": "s" if residual else "o", "linestyle": "--" if residual else "-"}
            for axis, name in zip(axes, panels, strict=True):
                at = {depth: values for depth, values in zip(depths, by_depth(results, row, name), strict=True)
                      if all(map(math.isfinite, values))}  # fmt: skip
                if not at:
                    continue
                axis.plot(list(at), middle(list(at.values())), label=f"{arm}, {activation}", linewidth=1.5, **style)
                low, high = ([pick(values) for values in at.values()] for pick in (min, max))
                axis.fill_between(list(at), low, high, color=colour, alpha=0.12, linewidth=0)
    floors = results.values(rows[0], "measure.near_floor")
    grey = {"color": "#888888", "linewidth": 1.2, "linestyle": ":"}
    axes[0].axhline(sizes["tolerance"], label=f"error {sizes['tolerance']:g}", **grey)
    axes[1].axhline(sum(floors) / len(floors), label="error of the identity", **{**grey, "linestyle": "-."})
    titles = (*(f"{name}: error after\n{sizes['steps']:,} updates" for name in TARGETS.values()),
              f"identity: updates until\nan error of {sizes['tolerance']:g}")  # fmt: skip
    for axis, title in zip(axes, titles, strict=True):
        axis.set_xscale("log", base=2)
        axis.set_xticks(depths, [str(depth) for depth in depths])
        axis.set_xlim(depths[0] / 1.2, depths[-1] * 1.2)
        if axis.lines:
            axis.set_yscale("log")
        axis.set_title(title, loc="left", fontsize=11)
        axis.set_xlabel("dense layers")
    if axes[2].lines:
        mark_plainly(axes[2].yaxis)
    legend(figure)
    where = folder / "errors.png"
    save(figure, where, caption(results, "lines: median over seeds, bands: range of the seeds", rows=rows))
    last = {row: middle(by_depth(results, row, "identity_errors"))[-1] for row in rows}
    said = "; ".join(f"{row.replace('_', ', ')} {value:.2g}" for row, value in last.items())
    return Figure(where, "Fitting the identity by depth", f"Errors of the deepest stacks: {said}.")
