"""The accuracies of a run by update, read from its log, and the figure of a study."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np

from attention_research.studies.figures import Figure, canvas, caption, legend, row_styles, save
from attention_research.studies.results import Results
from attention_research.training.metrics_log import read_metrics

#: The accuracy that counts as learned, and the largest number of points of a curve, evenly on a logarithmic axis.
LEARNED, POINTS = 0.99, 120


def measure_updates(*, workdir: Path, seed: int, **_: Any) -> dict[str, Any]:
    """The first updates after which the accuracy is at least 99 %, of a training batch ("fitted") and of all validation
    equations ("generalised"), where the run reached it; the accuracies at the end in percent; and the curves."""
    del seed
    found: dict[str, Any] = {}
    for split, reached, name in (("train", "fitted", "training"), ("validation", "generalised", "validation")):
        lines = {line["step"]: line["correct"] for line in read_metrics(workdir) if line["split"] == split}
        steps = sorted(lines)
        first = next((step for step in steps if lines[step] >= LEARNED), None)
        found |= {} if first is None else {reached: first}
        some = spread(steps)
        found |= {f"{name}_steps": some, f"{name}_accuracies": [round(100 * lines[step], 2) for step in some]}
    return {
        **found,
        "validation_accuracy": found["validation_accuracies"][-1],
        "best_accuracy": max(found["validation_accuracies"]),
        "learned": 100.0 * ("generalised" in found),
    }


def spread(steps: list[int]) -> list[int]:
    """At most `POINTS` of some steps, evenly on a logarithmic axis, with the first and the last.

    >>> spread([10, 20, 30])
    [10, 20, 30]
    """
    if len(steps) <= POINTS:
        return steps
    wanted = np.geomspace(steps[0], steps[-1], POINTS)
    return [steps[place] for place in sorted({int(np.argmin(np.abs(np.asarray(steps) - step))) for step in wanted})]


def draw(results: Results, folder: Path) -> Figure | None:
    """Left: training (dotted) and validation accuracy against the update, of the first seed. Right: updates until 99 %
    of validation against the share of S5's equations that are for training, every seed and the median."""
    rows = [row for row in results.rows if results.of(row.id) and results.values(row.id, "measure.validation_steps")]
    if not rows:
        return None
    reached = {int(row.id.removeprefix("s5_")): values for row in rows
               if row.id.startswith("s5_") and (values := results.values(row.id, "measure.generalised"))}  # fmt: skip
    styles, panels = row_styles(results), 2 if reached else 1
    figure, axes = canvas().subplots(
        1, panels, figsize=((7, 10)[panels - 1], 4.4), width_ratios=(2, 1)[:panels], squeeze=False
    )
    left = axes[0, 0]
    for row in rows:
        one = lambda name, row=row: results.values(row.id, f"measure.{name}")[0]
        line = {"color": styles[row.id]["color"], "linewidth": 1.4}
        left.plot(one("validation_steps"), one("validation_accuracies"), "-", label=row.name, **line)
        left.plot(one("training_steps"), one("training_accuracies"), ":", **line)
    left.set_xscale("log")
    left.set_xlabel("updates")
    left.set_ylabel("accuracy, %")
    marks = "the first seed, dotted: training"
    if reached:
        right, marks = axes[0, 1], f"left: {marks}; right: points are seeds, line: median"
        for share, values in reached.items():
            right.plot([share] * len(values), values, "o", color=styles[f"s5_{share}"]["color"], alpha=0.7)
        right.plot(list(reached), [statistics.median(values) for values in reached.values()], "-", color="#000000",
                   linewidth=1.2)  # fmt: skip
        right.set_yscale("log")
        right.set_xlabel("equations of S5 for training, %")
        right.set_ylabel("updates until 99 % of validation")
    legend(figure, [left], columns=3)
    path = folder / "accuracy.png"
    save(figure, path, caption(results, marks))
    last = "; ".join(f"{row.name} {results.values(row.id, 'measure.validation_accuracy')[0]:.0f} %" for row in rows)
    return Figure(
        path, "Accuracy by update", f"Training and validation accuracy by update. Validation at the end: {last}."
    )
