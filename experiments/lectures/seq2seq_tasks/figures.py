"""The figures of `lectures/seq2seq_tasks`."""

from __future__ import annotations

import statistics
import textwrap
from pathlib import Path

from attention_research.studies.figures import BASELINE, MEAN, Figure, canvas, caption, save
from attention_research.studies.results import Results

#: Row -> title, and the edges of its cells, in words.
CELLS = {
    "lengths": ("any lengths: run-length codes", (1, 3, 5, 7, 9, 11, 13)),
    "parsing": ("parsing: sentences and their trees", tuple(range(1, 34, 4))),
}
#: Row -> title, key of the score, name of the score, [(key of a baseline, name of the baseline)].
TASKS = {
    "parsing": ("sentences to trees", "evaluate.f1", "bracket F1", (("evaluate.flat_f1", "one bracket"),)),
    "code": ("descriptions to Python", "measure.passes", "programs that pass, %",
             (("measure.nearest_passes", "nearest description"),)),
}  # fmt: skip


def draw_cells(results: Results, folder: Path) -> Figure | None:
    """Draws the exact match by length of source and target, averaged over seeds, with one panel per task."""
    found = {row: results.values(row, "measure.cells") for row in CELLS}
    found = {row: tables for row, tables in found.items() if tables}
    if not found:
        return None
    pyplot, said = canvas(), []
    figure, axes = pyplot.subplots(1, len(found), figsize=(5.2 * len(found), 4.8), squeeze=False)
    for axis, (row, tables) in zip(axes[0], found.items(), strict=True):
        title, edges = CELLS[row]
        names = [f"{low}-{high - 1}" for low, high in zip(edges, edges[1:], strict=False)]
        means = [[_mean([table[i][j] for table in tables]) for j in range(len(names))] for i in range(len(names))]
        sources = [i for i, line in enumerate(means) if any(share is not None for share in line)]
        targets = [j for j in range(len(names)) if any(line[j] is not None for line in means)]
        means = [[means[i][j] for j in targets] for i in sources]
        axis.imshow([[float("nan") if x is None else x for x in line] for line in means], vmin=0, vmax=1,
                    cmap="viridis", origin="lower")  # fmt: skip
        for i, line in enumerate(means):
            for j, share in enumerate(line):
                if share is not None:
                    colour = "white" if share < 0.6 else "black"
                    axis.text(j, i, f"{100 * share:.0f}", ha="center", va="center", color=colour, fontsize=9)
        axis.set_xticks(range(len(targets)), [names[j] for j in targets])
        axis.set_yticks(range(len(sources)), [names[i] for i in sources])
        axis.set_xlabel("words of the target")
        axis.set_ylabel("words of the source")
        axis.set_title(f"{title}:\nexact match, %", fontsize=10)
        axis.grid(False)
        known = [share for line in means for share in line if share is not None]
        said.append(f"{title}: {min(known):.0%} to {max(known):.0%} over {len(known)} cells")
    where = folder / "lengths.png"
    save(figure, where, caption(results, "mean over seeds, empty cells: no examples", rows=list(found)))
    return Figure(where, "Exact match by the lengths of source and target", f"{'; '.join(said)}.")


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def draw_floors(results: Results, folder: Path) -> Figure | None:
    """Draws the score of each task with its baselines, one panel per task; a cross marks each seed."""
    rows = [row for row, (_, key, *_) in TASKS.items() if results.values(row, key)]
    if not rows:
        return None
    pyplot, said = canvas(), []
    figure, axes = pyplot.subplots(1, len(rows), figsize=(2.6 * len(rows), 4.2), squeeze=False)
    for axis, row in zip(axes[0], rows, strict=True):
        title, key, what, floors = TASKS[row]
        bars = [("the model", key), *((name, floor) for floor, name in floors)]
        bars = [(name, values) for name, one in bars if (values := results.values(row, one))]
        for place, (_, values) in enumerate(bars):
            colour = MEAN if place == 0 else BASELINE
            axis.plot([place] * len(values), values, "o" if place == 0 else "s", color=colour, alpha=0.75)
            axis.hlines(statistics.fmean(values), place - 0.3, place + 0.3, color=colour, linewidth=2)
        axis.set_xticks(range(len(bars)), [textwrap.fill(name, 14) for name, _ in bars], rotation=90)
        axis.set_xlim(-0.6, len(bars) - 0.4)
        axis.set_title(title, fontsize=10)
        axis.set_ylabel(what)
        axis.set_ylim(0, 104)
        said.append(f"{title}: " + ", ".join(f"{name} {statistics.fmean(values):.1f}" for name, values in bars))
    where = folder / "floors.png"
    save(figure, where, caption(results, "blue: the model, one point per seed, grey: baselines, bars: mean", rows=rows))
    return Figure(where, "Scores and simple baselines by task", f"{'; '.join(said)}.")
