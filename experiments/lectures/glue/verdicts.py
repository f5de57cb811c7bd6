"""The rows, the verdict and the figure of `lectures/glue`."""

from __future__ import annotations

import statistics
from pathlib import Path

from attention_research.studies.figures import Figure, canvas, caption, legend, row_styles, save
from attention_research.studies.results import Results
from attention_research.studies.row_comparisons import averages
from attention_research.studies.verdicts import UNTESTED, Verdict, between, conclude

TASKS = {"sentence": "sentences", "review": "reviews", "news": "news", "quiz": "quiz questions"}
ROWS = {
    "transformer": "Transformer, pre-trained",
    "transformer_scratch": "Transformer, from scratch",
    "lstm": "LSTM, pre-trained",
    "lstm_scratch": "LSTM, from scratch",
}
LEADER = "transformer"


def average(results: Results, row: str) -> list[float]:
    """Returns the scores of each seed that has all tasks, averaged over them."""
    return averages(results, row, [f"{task}.score" for task in TASKS], higher=True)


def tops(results: Results) -> Verdict:
    """The average of the pre-trained Transformer is above that of each other row."""
    found = {row: average(results, row) for row in ROWS}
    said = [f"{name}: average {statistics.fmean(found[row]):.1f} ({', '.join(f'{x:.1f}' for x in found[row])})"
            for row, name in ROWS.items() if found[row]]  # fmt: skip
    others = [row for row in ROWS if row != LEADER]
    if not all(found.values()) or min(map(len, found.values())) < 2:
        return Verdict(UNTESTED, ["not all four rows are measured with two seeds", *said])
    cases = {ROWS[row]: between(LEADER, row, found[LEADER], found[row], "average") for row in others}
    return conclude(cases).beside(*said)


VERDICTS = {"glue-tops-transformer": tops}


def draw(results: Results, folder: Path) -> Figure | None:
    """Draws the scores of each task and their average, one mark per seed; a grey line shows the majority class."""
    rows = [row for row in ROWS if average(results, row)]
    if not rows:
        return None
    pyplot = canvas()
    groups = {**TASKS, "average": "average of the tasks"}
    figure, axes = pyplot.subplots(1, len(groups), figsize=(10, 4), sharey=True)
    looks = row_styles(results)
    for number, row in enumerate(ROWS):
        if row not in rows:
            continue
        scores = {task: results.values(row, f"{task}.score") for task in TASKS} | {"average": average(results, row)}
        style = {**looks[row], "linestyle": "none", "label": ROWS[row]}
        for axis, task in zip(axes, groups, strict=True):
            axis.plot([number] * len(scores[task]), scores[task], **style)
    for axis, (task, name) in zip(axes, groups.items(), strict=True):
        if floors := results.values(rows[0], f"{task}.majority_accuracy"):
            axis.axhline(floors[0], color="grey", linewidth=1, label="accuracy of the majority class")
        axis.set_title(name, fontsize=10)
        axis.set_xticks([])
        axis.set_xlim(-0.6, len(ROWS) - 0.4)
        axis.set_ylim(-3, 103)
    axes[0].set_ylabel("score, %")
    legend(figure, columns=3)
    where = folder / "scores.png"
    save(figure, where, caption(results, "one mark per seed", rows=rows))
    said = "; ".join(f"{ROWS[row]} {statistics.fmean(average(results, row)):.1f}" for row in rows)
    return Figure(where, "Scores by task", f"Averages: {said} %.")
