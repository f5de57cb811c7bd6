"""The figures of `lectures/rnn_vs_transformer`."""

from __future__ import annotations

import statistics
from pathlib import Path

from attention_research.studies import Row
from attention_research.studies.columns import Column, fixed
from attention_research.studies.figures import Figure, canvas, caption, legend, mark_plainly, save, styles_of
from attention_research.studies.results import Results

from .courses import courses

#: The models of all figures; a model has the same style in each.
MODELS = (
    "vanilla RNN",
    "LSTM",
    "LSTM with attention",
    "RNNsearch (GRU)",
    "Transformer",
    "Transformer without positions",
)
#: Task of the recall rows -> title of its panel.
PANELS = {"copy": "copying", "last": "agreement with the last noun", "first": "agreement with the first noun"}
FAR = Column("measure.far", "recall, longest third", fixed(2), better="higher")


def draw_course(results: Results, folder: Path) -> Figure | None:
    """Draws the error rate of the checkpoints against seconds of training, one line per seed."""
    found = {row.name: c for row in results.study.rows if (c := courses(results, row.id))}
    if not found:
        return None
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(8.5, 5))
    style_of = styles_of([*MODELS, *found])
    for name, seeds in found.items():
        for number, course in enumerate(seeds):
            axis.plot(*zip(*course, strict=True), label=name if number == 0 else None, linewidth=1.2, markersize=4,
                      **style_of[name])  # fmt: skip
    axis.set_yscale("log")
    mark_plainly(axis.yaxis)
    axis.set_xlabel("seconds of training")
    axis.set_ylabel("wrong sounds of test words, %")
    legend(figure, columns=3)
    where = folder / "errors_over_time.png"
    rows = [row.id for row in results.study.rows if row.name in found]
    save(figure, where, caption(results, "one line per seed, one mark per checkpoint", rows=rows))
    last = "; ".join(f"{name} {seeds[0][-1][1]:.1f} % after {seeds[0][-1][0]:.0f} s" for name, seeds in found.items())
    return Figure(where, "Error rate against training time", f"First seeds end at: {last}.")


def _recalling(results: Results) -> list[Row]:
    return [row for row in results.study.rows if row.id.split("_")[0] in PANELS]


def draw_recall(results: Results, folder: Path) -> Figure | None:
    """Draws recall against delay, one panel per task."""
    found: dict[str, list[tuple[str, list[int], list[float]]]] = {task: [] for task in PANELS}
    for row in _recalling(results):
        lists = [e.result["stages"].get("measure", {}) for e in results.of(row.id) if e.result]
        lists = [one for one in lists if one.get("recalls")]
        if lists:
            means = [statistics.fmean(at) for at in zip(*(one["recalls"] for one in lists), strict=True)]
            found[row.id.split("_")[0]].append((row.name.split(", ")[-1], lists[0]["delays"], means))
    if not any(found.values()):
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, len(PANELS), figsize=(10.5, 4.6), sharey=True)
    style_of = styles_of([*MODELS, *(name for lines in found.values() for name, *_ in lines)])
    for axis, (task, title) in zip(axes, PANELS.items(), strict=True):
        for name, delays, recalls in found[task]:
            axis.plot(delays, recalls, label=name, linewidth=1.2, markersize=4, **style_of[name])
        axis.set_title(title, loc="left", fontsize=11)
        axis.set_xlabel("number of words between")
        axis.set_ylim(-0.03, 1.03)
    axes[0].set_ylabel("recall, share of examples")
    legend(figure, columns=3)
    where = folder / "recall_by_distance.png"
    save(figure, where, caption(results, "lines: mean over seeds", rows=[row.id for row in _recalling(results)]))
    said = "; ".join(f"{row.name} {text}" for row in _recalling(results) if (text := results.cell(row.id, FAR).text))
    return Figure(where, "Recall by distance", f"Over the longest third of distances: {said}.")
