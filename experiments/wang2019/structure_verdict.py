"""The verdict and the figure of `wang2019/structure`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from attention_research.studies.figures import Figure, canvas, caption, legend, row_styles, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, compare, conclude

from .tree_positions import FROM


def classes(starts: Sequence[int]) -> dict[int, str]:
    """Maps the first distance of each class to the name of the class.

    >>> classes((1, 3, 6))
    {1: '1-2', 3: '3-5', 6: '6+'}
    """
    until = [f"-{after - 1}" for after in starts[1:]]
    return {first: f"{first}{last}" for first, last in zip(starts, [*until, "+"], strict=True)}


def tree_helps(results: Results) -> Verdict:
    """Positions in the tree, together with linear ones, are better than linear ones alone at every distance.

    The text also gives the tree alone, which cannot tell a subject from an object, and trees with lost heads.
    """
    cases = {}
    for first, words in classes(FROM).items():
        key = f"measure.from_{first}"
        cases[f"both, subject {words} back"] = compare(results, "both", "linear", key, higher=True)
    verdict = conclude(cases)
    said = []
    for row in results.rows:
        if values := results.values(row.id, "measure.accuracy"):
            said.append(f"{row.name}: {statistics.fmean(values):.1%} of all verbs")
    for row in ("dependency_lost", "both_lost"):
        case = compare(results, row, "linear", "measure.accuracy", higher=True)
        said += [f"with a tenth of the heads lost: {case.said}"] if case.gain is not None else []
    return verdict.beside(*said)


def draw_distances(results: Results, folder: Path) -> Figure | None:
    """Draws the accuracy by the distance of the subject, one line per row, with the mean and the range over seeds.

    The right panel is for verbs whose nearest noun has the other number.
    """
    rows = [row for row in results.rows if results.values(row.id, "measure.accuracy")]
    if not rows:
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.8), width_ratios=(3, 2))
    said = []
    looks = row_styles(results)
    for place, row in enumerate(rows):
        style = looks[row.id]
        by_class = [results.values(row.id, f"measure.from_{first}") for first in FROM]
        found = {at: values for at, values in enumerate(by_class) if values}
        means = list(map(statistics.fmean, found.values()))
        axes[0].plot(list(found), means, label=row.name, linewidth=1.5, markersize=6, **style)
        low, high = list(map(min, found.values())), list(map(max, found.values()))
        axes[0].fill_between(list(found), low, high, color=style["color"], alpha=0.15, linewidth=0)
        values = results.values(row.id, "measure.attracted")
        axes[1].plot(values, [place] * len(values), style["marker"], color=style["color"], alpha=0.8)
        said.append(f"{row.name} {', '.join(f'{mean:.2f}' for mean in means)}")
    axes[0].set_xticks(range(len(FROM)), list(classes(FROM).values()))
    axes[0].set_xlabel("words from the subject to its verb")
    axes[0].set_ylabel("accuracy at the verbs")
    legend(figure, columns=3)
    axes[1].yaxis.tick_right()
    axes[1].set_yticks(range(len(rows)), [row.name for row in rows])
    axes[1].set_ylim(len(rows) - 0.5, -0.5)
    axes[1].set_xlabel("accuracy at verbs whose nearest noun\nhas the other number")
    where = folder / "distances.png"
    save(
        figure,
        where,
        caption(
            results,
            "left: mean over seeds and range of the seeds, right: one mark per seed",
            rows=[row.id for row in rows],
        ),
    )
    return Figure(where, "Agreement by distance", f"From the nearest subjects to the farthest: {'; '.join(said)}.")
