"""The figures of `lectures/rigidity`."""

from __future__ import annotations

from pathlib import Path

from attention_research.studies.figures import COLOURS, Figure, canvas, save
from attention_research.studies.results import Results

from .verdicts import ENCODERS, INPUTS, KINDS, READERS


def draw_layers(results: Results, folder: Path) -> Figure | None:
    """Draws, from the word vectors to the last layer: the agreement of weights with cosines, for basic and for learned
    attention; the cosine of two tokens before and after basic attention; and the weight of a token on itself."""
    rows = [row for row in ENCODERS if results.values(row, "measure.agreement")]
    if not rows:
        return None
    pyplot, said = canvas(), []
    figure, axes = pyplot.subplots(1, 3, figsize=(12.6, 3.8))
    panels = (
        ("weight ~ cosine (rank correlation)", (("agreement", "X X^T", "-", 0), ("learned", "learned heads", ":", 1))),
        ("mean cosine of two tokens", (("before", "before", "--", 0), ("after", "after", "-", 0))),
        ("weight of a token on itself", (("own", "X X^T", "-", 0),)),
    )
    for row, colour in zip(rows, COLOURS[1:], strict=False):
        for axis, (_, lines) in zip(axes, panels, strict=True):
            for name, title, line, first in lines:
                curve = results.mean_list(row, f"measure.{name}")
                axis.plot(range(first, first + len(curve)), curve, line, color=colour, marker="o", markersize=4,
                          label=f"{ENCODERS[row][0]}: {title}")  # fmt: skip
        agreement, before, after = (results.mean_list(row, f"measure.{name}")[0]
                                    for name in ("agreement", "before", "after"))  # fmt: skip
        said.append(f"{ENCODERS[row][0]}, words: agreement {agreement:.2f}, cosine {before:.2f} to {after:.2f}")
    count = len(results.mean_list(rows[0], "measure.agreement"))
    for axis, (title, _) in zip(axes, panels, strict=True):
        axis.set_title(title, loc="left", fontsize=11)
        axis.set_ylim(min(0.0, axis.get_ylim()[0]), 1.04)
        axis.set_xticks(range(count), ["w", "in", *map(str, range(1, count - 1))])
        axis.set_xlabel("words (w), input of the first layer, output of each layer")
        axis.legend(fontsize=8)
    where = folder / "layers.png"
    save(pyplot, figure, where)
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
    figure, axis = pyplot.subplots(figsize=(8.4, 4.6))
    for number, (kind, name) in enumerate(kinds.items()):
        points = [(100 * value, place + 0.17 * (number - 1.5))
                  for place, task in enumerate(tasks) for value in found[task, kind]]  # fmt: skip
        if points:
            style = {"color": COLOURS[number], "marker": "osD^"[number], "linestyle": "none"}
            axis.plot(*zip(*points, strict=True), label=name, markersize=6, alpha=0.8, **style)
    for task in tasks:
        means = [f"{kinds[kind]} {100 * sum(found[task, kind]) / len(found[task, kind]):.1f}"
                 for kind in kinds if found[task, kind]]  # fmt: skip
        said += [f"{task}: {', '.join(means)} %"] if means else []
    axis.axhline(1.5, color="grey", linewidth=0.8)
    axis.set_yticks(range(len(tasks)), list(tasks))
    axis.set_ylim(len(tasks) - 0.5, -0.5)
    axis.set_xlim(0, 103)
    axis.set_xlabel("accuracy, % (one mark per seed)")
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=4, fontsize=8)
    where = folder / "accuracies.png"
    save(pyplot, figure, where)
    return Figure(where, "Accuracy of each kind of attention", f"{'; '.join(said)}.")
