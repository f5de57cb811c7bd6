"""The figures of `lra2020/table1`."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from attention_research.studies.columns import significant
from attention_research.studies.figures import COLOURS, Figure, canvas, save, styles
from attention_research.studies.results import Results, published

from .mechanisms import MECHANISMS, TASKS
from .table1_verdicts import ACCURACY, longest, score, told

#: The area of the largest bubble, in square points.
LARGEST = 1800.0


def _bubbles(axis: Any, found: dict[str, tuple[float, float, float]], unit: str) -> None:
    """Draws (speed, score, memory) of each mechanism as a numbered bubble, whose area is the memory, and the legend."""
    most, said = max(size for _, _, size in found.values()), []
    looks = dict(zip(MECHANISMS, itertools.cycle(COLOURS[1:]), strict=False))
    for number, name in enumerate(MECHANISMS, start=1):
        if name in found:
            speed, height, size = found[name]
            axis.scatter([speed], [height], s=[max(LARGEST * size / most, 40.0)], color=looks[name], alpha=0.45)
            axis.annotate(str(number), (speed, height), fontsize=9, ha="center", va="center")
            said.append(f"{number}  {MECHANISMS[name]}, {significant(3)(size)} {unit}")
    axis.set_xscale("log")
    axis.margins(0.2)
    axis.text(1.02, 0.5, "\n".join(said), transform=axis.transAxes, fontsize=9, va="center")


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
    figure, axes = pyplot.subplots(1, 2 if theirs else 1, figsize=(14, 4.8), squeeze=False)
    figure.subplots_adjust(wspace=0.65)
    length = longest(results, next(iter(ours)))[0]
    panels = [
        (ours, "MB", f"ours: steps/s at {length:,} tokens", f"accuracy: {', '.join(TASKS[task] for task in tasks)}")
    ]
    if theirs:
        panels.append((theirs, "GB", "published: steps/s at 4K tokens", "published average of five tasks"))
    for axis, (found, unit, across, up) in zip(axes[0], panels, strict=True):
        _bubbles(axis, found, unit)
        axis.set_xlabel(across)
        axis.set_ylabel(up)
    where = folder / "score_speed_memory.png"
    save(pyplot, figure, where)
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
    figure, axes = pyplot.subplots(1, len(tasks), figsize=(2.2 + 2.5 * len(tasks), 4.2), squeeze=False, sharey=True)
    for axis, task in zip(axes[0], tasks, strict=True):
        for place, one in enumerate(MECHANISMS):
            values = results.values(f"{task}_{one}", ACCURACY)
            axis.plot(values, [place] * len(values), "o", color=COLOURS[1], alpha=0.7)
            if printed := cells.get(f"{task}_{one}", {}).get("accuracy"):
                axis.plot([float(printed)], [place], "x", color=COLOURS[2])
            if values:
                said.append(f"{TASKS[task]}, {MECHANISMS[one]} {sum(values) / len(values):.1f}")
                axis.axvline(results.mean(f"{task}_{one}", "evaluate.majority_accuracy"), color="grey", linewidth=0.6)
        axis.set_title(TASKS[task], fontsize=11)
    axes[0, 0].set_yticks(range(len(MECHANISMS)), list(MECHANISMS.values()))
    axes[0, 0].invert_yaxis()
    axes[0, -1].set_xlabel("accuracy; grey: majority class; cross: published (other data and sizes)", loc="right")
    where = folder / "tasks.png"
    save(pyplot, figure, where)
    return Figure(where, "Accuracy by task", f"{'; '.join(said)}.")


def draw_costs(results: Results, folder: Path) -> Figure | None:
    """Draws steps per second and megabytes of a training step by length."""
    names = {row.id: row.name.removeprefix("cost: ") for row in results.rows if row.id.startswith("cost_")}
    names = {row: name for row, name in names.items() if results.values(row, "measure.lengths")}
    if not names:
        return None
    pyplot, said = canvas(), []
    figure, axes = pyplot.subplots(1, 2, figsize=(11.5, 4.4))
    figure.subplots_adjust(wspace=0.3)
    for axis, what, unit in zip(axes, ("speeds", "sizes"), ("steps/s", "MB per step"), strict=True):
        for (row, name), style in zip(names.items(), styles(), strict=False):
            lengths, means = results.values(row, "measure.lengths")[0], results.mean_list(row, f"measure.{what}")
            axis.plot(lengths, means, label=name, linewidth=1.4, markersize=5, **style)
            said.append(f"{name} {means[-1]:.3g} {unit}")
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xlabel("tokens")
        axis.set_ylabel(unit)
    axes[1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=9)
    where = folder / "cost.png"
    save(pyplot, figure, where)
    return Figure(where, "Cost of a training step by length", f"At the longest: {'; '.join(said)}.")
