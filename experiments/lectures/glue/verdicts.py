"""The rows, the verdict and the figure of `lectures/glue`."""

from __future__ import annotations

import statistics
from pathlib import Path

from attention_research.studies.figures import COLOURS, Figure, canvas, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Verdict, between, conclude

TASKS = {"sentence": "sentences", "review": "reviews", "news": "news", "quiz": "quiz questions"}
ROWS = {
    "transformer": "Transformer, pre-trained",
    "transformer_scratch": "Transformer, from scratch",
    "lstm": "LSTM, pre-trained",
    "lstm_scratch": "LSTM, from scratch",
}
LEADER = "transformer"


def averages(results: Results, row: str) -> list[float]:
    """Returns the scores of each seed, averaged over tasks; the list is empty if a task is missing."""
    lists = [results.values(row, f"{task}.score") for task in TASKS]
    return [statistics.fmean(values) for values in zip(*lists, strict=False)] if all(lists) else []


def tops(results: Results) -> Verdict:
    """The average of the pre-trained Transformer is above that of each other row."""
    found = {row: averages(results, row) for row in ROWS}
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
    rows = [row for row in ROWS if averages(results, row)]
    if not rows:
        return None
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(8.4, 4.4))
    groups = {**TASKS, "average": "average"}
    for number, row in enumerate(ROWS):
        if row not in rows:
            continue
        scores = {task: results.values(row, f"{task}.score") for task in TASKS} | {"average": averages(results, row)}
        points = [(place + 0.18 * (number - 1.5), value) for place, task in enumerate(groups) for value in scores[task]]
        style = {"color": COLOURS[1 + number // 2], "markerfacecolor": COLOURS[1 + number // 2]}
        style |= {"markerfacecolor": "none"} if row.endswith("_scratch") else {}
        axis.plot(*zip(*points, strict=True), "so"[number // 2], label=ROWS[row], **style)
    for place, task in enumerate(TASKS):
        if floors := results.values(rows[0], f"{task}.majority_accuracy"):
            axis.plot([place - 0.4, place + 0.4], [floors[0]] * 2, color="grey", linewidth=1)
    axis.set_xticks(range(len(groups)), list(groups.values()))
    axis.set_xlim(-0.5, len(groups) - 0.5)
    axis.set_ylim(0, 103)
    axis.set_ylabel("score, % (grey: accuracy of the majority class)")
    axis.legend(fontsize=8, ncols=2)
    where = folder / "scores.png"
    save(pyplot, figure, where)
    said = "; ".join(f"{ROWS[row]} {statistics.fmean(averages(results, row)):.1f}" for row in rows)
    return Figure(where, "Scores by task", f"Averages: {said} %.")
