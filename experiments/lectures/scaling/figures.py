"""The figure of `lectures/scaling`."""

from __future__ import annotations

from pathlib import Path

from attention_research.studies.figures import Figure, canvas, save, styles
from attention_research.studies.results import Results

PANELS = {
    "logit_variances": "variance of the logits",
    "entropys": "entropy / log S",
    "largests": "largest weight",
    "jacobians": "norm of the softmax Jacobian",
}


def draw_by_width(results: Results, folder: Path) -> Figure | None:
    """Draws the measurements on random vectors by width, one line per score, and the Jacobian by a factor on logits."""
    rows = [row for row in results.rows if results.values(row.id, "measure.logit_variances")]
    if not rows:
        return None
    settings, pyplot = results.study.scale(results.scale).settings, canvas()
    figure, axes = pyplot.subplots(1, len(PANELS) + 1, figsize=(17, 3.8))
    mean = lambda row, name: results.mean_list(row.id, f"measure.{name}")
    for row, style in zip(rows, styles(), strict=False):
        style = {**style, "linewidth": 1.4, "markersize": 5}
        for axis, name in zip(axes, PANELS, strict=False):
            axis.plot(settings["random_widths"], mean(row, name), label=row.name.partition(", ")[2], **style)
        axes[-1].plot(settings["factors"], mean(row, "jacobian_by_factor"), **style)
    for axis, title in zip(axes, (*PANELS.values(), "norm of the Jacobian by factor"), strict=True):
        axis.set_xscale("log", base=10 if axis is axes[-1] else 2)
        axis.set_title(title, loc="left", fontsize=11)
        axis.set_xlabel("factor on logits of standard deviation 1" if axis is axes[-1] else "width")
    axes[0].set_yscale("log")
    axes[0].legend(fontsize=9)
    where = folder / "by_width.png"
    save(pyplot, figure, where)
    last = {row.name: [mean(row, name)[-1] for name in ("logit_variances", "entropys")] for row in rows}
    said = "; ".join(f"{name}: variance {spread:.3g}, entropy {left:.2f}" for name, (spread, left) in last.items())
    return Figure(where, "Logits and softmax by width", f"At the largest width: {said}.")
