"""The figures of `lectures/rigidity`."""

from __future__ import annotations

from pathlib import Path

from attention_research.studies.figures import (
    COLOURS,
    Figure,
    canvas,
    caption,
    groups_as_points,
    legend,
    save,
    styles_of,
)
from attention_research.studies.results import Results

from .verdicts import ENCODERS, INPUTS, KINDS, READERS


def draw_layers(results: Results, folder: Path) -> Figure | None:
    """Draws, from the word vectors to the last layer: the agreement of weights with cosines, for basic and for learned
    attention; the cosine of two tokens before and after basic attention; and the weight of a token on itself."""
    rows = [row for row in ENCODERS if results.values(row, "measure.agreement")]
    if not rows:
        return None
    pyplot, said = canvas(), []
    figure, axes = pyplot.subplots(1, 3, figsize=(10.5, 4.4))
    panels = (
        (
            "rank correlation of\nweights and cosines",
            (("agreement", "X X^T", "-", 0), ("learned", "learned heads", ":", 1)),
        ),
        (
            "mean cosine\nof two tokens",
            (("before", "cosine before attention", "--", 0), ("after", "cosine after attention", "-.", 0)),
        ),
        ("weight of a token\non itself", (("own", "X X^T", "-", 0),)),
    )
    # Curves may coincide: large open marks show those that are drawn below small ones.
    marks = ({"marker": "s", "markersize": 8, "markerfacecolor": "none"}, {"marker": "o", "markersize": 4})
    for row, colour, mark in zip(rows, COLOURS[1:], marks, strict=False):
        for axis, (_, lines) in zip(axes, panels, strict=True):
            for name, title, line, first in lines:
                curve = results.mean_list(row, f"measure.{name}")
                axis.plot(range(first, first + len(curve)), curve, line, color=colour, linewidth=1.3, **mark,
                          label=f"{ENCODERS[row][0].replace('as drawn', 'untrained')}: {title}")  # fmt: skip
        agreement, before, after = (results.mean_list(row, f"measure.{name}")[0]
                                    for name in ("agreement", "before", "after"))  # fmt: skip
        said.append(f"{ENCODERS[row][0]}, words: agreement {agreement:.2f}, cosine {before:.2f} to {after:.2f}")
    count = len(results.mean_list(rows[0], "measure.agreement"))
    for axis, (title, _) in zip(axes, panels, strict=True):
        axis.set_title(title, loc="left", fontsize=11)
        axis.set_ylim(min(0.0, axis.get_ylim()[0]), 1.04)
        axis.set_xticks(range(count), ["words", "input", *map(str, range(1, count - 1))], fontsize=8)
        axis.set_xlabel("word vectors, input, or layer")
    legend(figure, columns=2)
    where = folder / "layers.png"
    save(figure, where, caption(results, "lines: mean over seeds", rows=rows))
    return Figure(where, "Weights of basic attention and similarity of tokens", f"{'; '.join(said)}.")


def draw_accuracies(results: Results, folder: Path) -> Figure | None:
    """Draws the accuracy at the most and the least similar token and on each kind of input, one mark per seed."""
    tasks = {"most similar token": ("unlike", "similar"), "least similar token": ("unlike", "dissimilar")}
    tasks |= {said: (inputs, "accuracy") for inputs, said in INPUTS.items()}
    kinds = {kind: name for kind, name in KINDS.items() if kind in READERS or kind == "shared"}
    found = {(task, kind): results.values(f"{row}_{kind}", f"measure.{key}")
             for task, (row, key) in tasks.items() for kind in kinds}  # fmt: skip
    if not any(found.values()):
        return None
    pyplot, said = canvas(), []
    figure, axes = pyplot.subplots(1, len(tasks), figsize=(11, 4.2), sharey=True)
    looks = styles_of(kinds.values())
    for axis, task in zip(axes, tasks, strict=True):
        groups_as_points(
            axis, {task: {name: [100 * x for x in found[task, kind]] for kind, name in kinds.items()}}, looks
        )
        axis.set_ylim(0, 103)
    for task in tasks:
        means = [f"{kinds[kind]} {100 * sum(found[task, kind]) / len(found[task, kind]):.1f}"
                 for kind in kinds if found[task, kind]]  # fmt: skip
        said += [f"{task}: {', '.join(means)} %"] if means else []
    axes[0].set_ylabel("accuracy, %")
    legend(figure)
    where = folder / "accuracies.png"
    save(figure, where, caption(results, "one mark per seed, bars: mean"))
    return Figure(where, "Accuracy of each kind of attention", f"{'; '.join(said)}.")
