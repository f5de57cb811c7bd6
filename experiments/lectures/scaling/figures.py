"""The figure of `lectures/scaling`."""

from __future__ import annotations

from pathlib import Path

from attention_research.studies.figures import Figure, canvas, caption, legend, mark_plainly, row_styles, save
from attention_research.studies.results import Results

PANELS = {
    "logit_variances": "variance of the logits",
    "entropys": "entropy of the weights / largest entropy",
    "largests": "largest weight",
    "jacobians": "norm of the softmax Jacobian",
}


def draw_by_width(results: Results, folder: Path) -> Figure | None:
    """Draws the measurements on random vectors by width, one line per score, and the Jacobian by a factor on logits."""
    rows = [row for row in results.rows if results.values(row.id, "measure.logit_variances")]
    if not rows:
        return None
    settings, pyplot = results.settings, canvas()
    figure, panels = pyplot.subplots(2, 3, figsize=(10.5, 6.6))
    axes = panels.ravel()[: len(PANELS) + 1]
    panels[1, 2].remove()
    mean = lambda row, name: results.mean_list(row.id, f"measure.{name}")
    looks = row_styles(results, [row.id for row in rows])
    for row in rows:
        style = {**looks[row.id], "linewidth": 1.4, "markersize": 5}
        for axis, name in zip(axes, PANELS, strict=False):
            axis.plot(settings["random_widths"], mean(row, name), label=row.name.partition(", ")[2], **style)
        axes[-1].plot(settings["factors"], mean(row, "jacobian_by_factor"), **style)
    for axis, title in zip(axes, (*PANELS.values(), "norm of the softmax Jacobian"), strict=True):
        axis.set_xscale("log", base=10 if axis is axes[-1] else 2)
        mark_plainly(axis.xaxis, (1,))
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("factor on logits of standard deviation 1" if axis is axes[-1] else "width of queries and keys")
    axes[0].set_yscale("log")
    mark_plainly(axes[0].yaxis, (1,))
    legend(figure)
    where = folder / "by_width.png"
    save(figure, where, caption(results, "random vectors; lines: mean over seeds", rows=list(looks)))
    last = {row.name: [mean(row, name)[-1] for name in ("logit_variances", "entropys")] for row in rows}
    said = "; ".join(f"{name}: variance {spread:.3g}, entropy {left:.2f}" for name, (spread, left) in last.items())
    return Figure(where, "Logits and softmax by width", f"At the largest width: {said}.")
