"""The figures of `raffel2017/online`."""

from __future__ import annotations

from pathlib import Path

from attention_research.studies.figures import Figure, canvas, caption, heat_maps, legend, save, styles_of
from attention_research.studies.results import Results

from .alignments import ALIGNMENTS


def samples(results: Results, folder: Path) -> Figure | None:
    """Draws one held-out word and one sentence with moved words, for each alignment."""
    maps = []
    for task in ("sounds", "local"):
        for alignment in ("soft", "monotonic", "mocha"):
            found = results.values(f"{task}_{alignment}", "measure.sample")[:1]
            maps += [{**sample, "title": ALIGNMENTS[alignment][0]} for sample in found if sample]
    return heat_maps(results, folder / "alignments.png", maps, "words and sentences with each alignment")


def lags(results: Results, folder: Path) -> Figure | None:
    """Draws the error rate against the average lag, one panel per task, one point per seed."""
    drawn = {
        one.name: list(zip(found, results.values(one.id, "evaluate.error_rate"), strict=False))
        for one in results.study.rows
        if (found := results.values(one.id, "measure.average_lag"))
    }
    if not drawn:
        return None
    pyplot = canvas()
    tasks = list(dict.fromkeys(name.partition(": ")[0] for name in drawn))
    looks = styles_of(name for name, *_ in ALIGNMENTS.values())
    figure, axes = pyplot.subplots(-(-len(tasks) // 2), 2, figsize=(9, 1 + 1.6 * len(tasks)), squeeze=False)
    for axis, task in zip(axes.flat, tasks, strict=False):
        for name, points in drawn.items():
            if name.partition(": ")[0] == task:
                alignment = name.partition(": ")[2]
                axis.plot(*zip(*points, strict=True), label=alignment, **{**looks[alignment], "linestyle": ""})
        axis.set_title(task)
        axis.set_xlabel("average lag, source tokens")
        axis.set_ylabel("error rate, %")
        axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
    for axis in axes.flat[len(tasks) :]:
        axis.remove()
    legend(figure, columns=3)
    save(figure, folder / "lag.png", caption(results, "one mark per seed"))
    said = "; ".join(f"{name} {points[0][1]:.1f} % at {points[0][0]:.1f}" for name, points in drawn.items())
    return Figure(folder / "lag.png", "Error rate against average lag; one point per seed", f"First seeds: {said}.")
