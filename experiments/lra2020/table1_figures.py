"""The figures of `lra2020/table1`."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

from attention_research.studies.columns import significant
from attention_research.studies.figures import (
    COLOURS,
    MEAN,
    PUBLISHED,
    Figure,
    canvas,
    caption,
    legend,
    mark_plainly,
    save,
    styles_of,
)
from attention_research.studies.point_labels import label_points
from attention_research.studies.results import Results, published

from .mechanisms import MECHANISMS, TASKS
from .table1_verdicts import ACCURACY, longest, score, told

#: The area of the largest bubble, in square points.
LARGEST = 1800.0


def _bubbles(axis: Any, found: dict[str, tuple[float, float, float]], unit: str) -> None:
    """Draws (speed, score, memory) of each mechanism as a circle, whose area is the memory, with its name."""
    most, said = max(size for _, _, size in found.values()), []
    looks = dict(zip(MECHANISMS, itertools.cycle(COLOURS[1:]), strict=False))
    for name in MECHANISMS:
        if name in found:
            speed, height, size = found[name]
            axis.scatter([speed], [height], s=[max(LARGEST * size / most, 40.0)], color=looks[name], alpha=0.45)
            said.append(f"{MECHANISMS[name]}, {significant(3)(size)} {unit}")
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.margins(0.2)
    there = [found[name] for name in MECHANISMS if name in found]
    radii = [math.sqrt(max(LARGEST * size / most, 40.0)) / 2 for *_, size in there]
    label_points(axis, said, [one[:2] for one in there], radii=radii)


def draw_bubbles(results: Results, folder: Path) -> Figure | None:
    """Draws the score against the speed, with memory as the area, for our results and the paper's (its Figure 3)."""
    measured, cells = [task for task in TASKS if results.values(f"{task}_standard", ACCURACY)], published(results.study)
    tasks, ours = told(results) or measured, {}
    for one in MECHANISMS:
        at, height = longest(results, one), score(results, one, tasks)
        if at and height is not None:
            ours[one] = (at[1], height, at[2])
    if not ours:
        return None
    theirs = {one: tuple(float(cells[f"cost_{one}"][name]) for name in ("steps/s 4K", "average", "GB 4K"))
              for one in MECHANISMS if f"cost_{one}" in cells}  # fmt: skip
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, 2 if theirs else 1, figsize=(10.5, 5.6), squeeze=False)
    length = longest(results, next(iter(ours)))[0]
    panels = [
        (ours, "MB", f"ours: steps/s at {length:,} tokens", f"accuracy: {', '.join(TASKS[task] for task in tasks)}")
    ]
    if theirs:
        panels.append((theirs, "GB", "published: steps/s at 4K tokens", "published average of five tasks"))
    for axis, (_, _, across, up) in zip(axes[0], panels, strict=True):
        axis.set_xlabel(across)
        axis.set_ylabel(up)
    for axis, (circles, size, *_) in zip(axes[0], panels, strict=True):
        _bubbles(axis, circles, size)
    where = folder / "score_speed_memory.png"
    save(figure, where, caption(results, "circles: mean over seeds, their area: memory"))
    said = "; ".join(f"{MECHANISMS[one]} {s:.3g} steps/s, {h:.1f}, {m:.3g} MB" for one, (s, h, m) in ours.items())
    return Figure(where, "Score against speed; the area is memory", f"Ours: {said}.")


def draw_tasks(results: Results, folder: Path) -> Figure | None:
    """Draws the accuracy of every mechanism on every task, one point per seed.

    Lines show the majority class, and crosses the published values.
    """
    tasks = [task for task in TASKS if any(results.values(f"{task}_{one}", ACCURACY) for one in MECHANISMS)]
    if not tasks:
        return None
    pyplot, cells, said = canvas(), published(results.study), []
    figure, axes = pyplot.subplots(1, len(tasks), figsize=(1.5 + 1.8 * len(tasks), 4.4), squeeze=False, sharey=True)
    for axis, task in zip(axes[0], tasks, strict=True):
        for place, one in enumerate(MECHANISMS):
            values = results.values(f"{task}_{one}", ACCURACY)
            axis.plot(
                values,
                [place] * len(values),
                "o",
                color=MEAN,
                alpha=0.7,
                label="this study, one point per seed" if values else None,
            )
            if printed := cells.get(f"{task}_{one}", {}).get("accuracy"):
                axis.plot([float(printed)], [place], "x", color=PUBLISHED, label="published (other data and sizes)")
            if values:
                said.append(f"{TASKS[task]}, {MECHANISMS[one]} {sum(values) / len(values):.1f}")
                axis.axvline(results.mean(f"{task}_{one}", "evaluate.majority_accuracy"), color="grey", linewidth=0.6,
                             label="majority class")  # fmt: skip
        axis.set_title(TASKS[task])
        axis.set_xlabel("accuracy, %")
    axes[0, 0].set_yticks(range(len(MECHANISMS)), list(MECHANISMS.values()))
    axes[0, 0].invert_yaxis()
    legend(figure)
    where = folder / "tasks.png"
    save(figure, where, caption(results, "one panel per task"))
    return Figure(where, "Accuracy by task", f"{'; '.join(said)}.")


def draw_costs(results: Results, folder: Path) -> Figure | None:
    """Draws steps per second and megabytes of a training step by length."""
    names = {row.id: row.name.removeprefix("cost: ") for row in results.rows if row.id.startswith("cost_")}
    names = {row: name for row, name in names.items() if results.values(row, "measure.lengths")}
    if not names:
        return None
    pyplot, said = canvas(), []
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 5))
    looks = styles_of(names)
    for axis, what, unit in zip(
        axes, ("speeds", "sizes"), ("training steps per second", "megabytes per step"), strict=True
    ):
        for (row, name), style in zip(names.items(), looks.values(), strict=True):
            lengths, means = results.values(row, "measure.lengths")[0], results.mean_list(row, f"measure.{what}")
            axis.plot(lengths, means, label=name, linewidth=1.4, markersize=5, **style)
            said.append(f"{name} {means[-1]:.3g} {unit}")
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(lengths, [f"{length:,}" for length in lengths])
        axis.minorticks_off()
        mark_plainly(axis.yaxis, (1,))
        axis.set_xlabel("sequence length, tokens")
        axis.set_ylabel(unit)
    legend(figure)
    where = folder / "cost.png"
    save(figure, where, caption(results, "lines: mean over seeds", rows=list(names)))
    return Figure(where, "Cost of a training step by length", f"At the longest: {'; '.join(said)}.")
