"""The figures of `lectures/embeddings`."""

from __future__ import annotations

from pathlib import Path

from attention_research.studies.figures import COLOURS, Figure, canvas, caption, legend, save, styles_of
from attention_research.studies.results import Results

from .verdicts import CHOICES, labels_of


def draw_choices(results: Results, folder: Path) -> Figure | None:
    """Draws the accuracy by number of labels, one line per kind of vectors."""
    curves = {name: results.mean_list(choice, "measure.accuracies") for choice, name in CHOICES.items()}
    curves = {name: curve for name, curve in curves.items() if curve}
    if not curves:
        return None
    pyplot, labels = canvas(), labels_of(results)
    figure, axis = pyplot.subplots(figsize=(7.4, 4.4))
    for (name, curve), look in zip(curves.items(), styles_of(CHOICES.values()).values(), strict=False):
        axis.plot(labels, [100 * value for value in curve], label=name, **look)
    axis.set_xscale("log", base=2)
    axis.set_xticks(labels, [f"{count:,}" for count in labels])
    axis.set_xlabel("number of labels")
    axis.set_ylabel("topic accuracy, %")
    legend(figure)
    where = folder / "choices.png"
    save(figure, where, caption(results, "lines: mean over seeds", rows=list(CHOICES)))
    said = "; ".join(f"{name} {', '.join(f'{100 * value:.1f}' for value in curve)} %" for name, curve in curves.items())
    return Figure(where, "Topic accuracy by word vectors", f"Accuracy at {', '.join(map(str, labels))} labels: {said}.")


def draw_layers(results: Results, folder: Path) -> Figure | None:
    """Draws the cosines within a sense and across senses by layer, for trained and for random weights."""
    rows = [row for row in results.rows if results.values(row.id, "measure.within")]
    if not rows:
        return None
    pyplot, said = canvas(), []
    figure, axis = pyplot.subplots(figsize=(7.4, 4.4))
    for row, colour in zip(rows, COLOURS[1:], strict=False):
        for name, line in (("within", "-"), ("across", "--")):
            curve = results.mean_list(row.id, f"measure.{name}")
            axis.plot(range(len(curve)), curve, line, color=colour, marker="o", markersize=4,
                      label=f"{row.name.replace('as drawn', 'untrained')}: {name} "
                            f"{'a sense' if name == 'within' else 'senses'}")  # fmt: skip
            said.append(f"{row.name}, {name}: {curve[0]:.2f} to {curve[-1]:.2f}")
    axis.set_xlabel("layer (0: input of the first layer)")
    axis.set_ylabel("mean cosine of two states of a word")
    legend(figure, columns=2)
    where = folder / "layers.png"
    save(figure, where, caption(results, "lines: mean over seeds", rows=[row.id for row in rows]))
    return Figure(where, "Similarity of a word's states within and across senses", f"{'; '.join(said)}.")


def draw_word(results: Results, folder: Path) -> Figure | None:
    """Draws the states of one word in their two principal directions, one panel per layer, one mark per sense."""
    points = results.values("encoder", "measure.points")
    if not points:
        return None
    layers, senses = points[0], results.values("encoder", "measure.senses")[0]
    shown = results.settings.get("shown", "the word")
    chosen = sorted({0, 1, len(layers) // 2, len(layers) - 1})
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, len(chosen), figsize=(2.6 * len(chosen), 3.2), squeeze=False)
    for axis, layer in zip(axes[0], chosen, strict=True):
        for sense, mark in ((0, "o"), (1, "^")):
            there = [point for point, one in zip(layers[layer], senses, strict=True) if one == sense]
            axis.plot(*zip(*there, strict=True), mark, color=COLOURS[1 + sense], label=f"sense {sense + 1}")
        axis.set_title("input" if layer == 0 else f"layer {layer}", loc="left", fontsize=11)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.set_xlabel("first component")
    axes[0, 0].set_ylabel("second component")
    legend(figure)
    where = folder / "word.png"
    save(
        figure,
        where,
        caption(results, f"states of the word {shown!r} in two principal components of each layer", seeds="1 seed"),
    )
    return Figure(where, f"States of '{shown}'", f"States of '{shown}' in eight sentences, four of each sense.")
