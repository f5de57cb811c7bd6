"""The figures of `lectures/static_attention`: weights against IDF, marked texts, accuracy by size, a word in contexts.

This module holds the names of the rows and draws their measurements. It defines no study.
"""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from attention_research.studies.figures import Figure, canvas, caption, legend, mark_plainly, save, styles_of
from attention_research.studies.point_labels import label_points
from attention_research.studies.results import Results

POOLINGS = {
    "mean": "mean",
    "idf": "IDF",
    "tf_idf": "TF-IDF of each occurrence",
    "token_weight": "a learned weight a token",
    "query": "a learned query",
    "self_attention": "self-attention X X^T",
    "qkv": "self-attention Q K V",
    "bidirectional_recurrent": "bidirectional GRU",
}
SETS = {"imdb": "IMDB", "bbc": "BBC", "frequent": "frequent words tell", "rare": "rare words tell"}
REAL = ("imdb", "bbc")
#: Smaller weights, as multiples of the uniform weight, are drawn here.
FLOOR = 1e-3


def first(results: Results, row: str, name: str) -> Any:
    """Returns the measurement `name` of the first seed of a row."""
    return next(iter(results.values(row, f"measure.{name}")), None)


def draw_weights(results: Results, folder: Path) -> Figure | None:
    """Draws learned weights against IDF with one point per term.

    The colour shows the mutual information with the label, and the farthest terms are named.
    """
    rows = [(set_, kind) for set_ in REAL for kind in ("token_weight", "query")]
    found = [(set_, kind, terms) for set_, kind in rows if (terms := first(results, f"{set_}_{kind}", "terms"))]
    if not found:
        return None
    pyplot = canvas()
    high = math.ceil(len(found) / 2)
    figure, axes = pyplot.subplots(high, 2, figsize=(10.5, 4 * high), squeeze=False)
    said, named = [], []
    for axis, (set_, kind, terms) in zip(axes.flat, found, strict=False):
        idf, weight, bits = (np.asarray(terms[name]) for name in ("idf", "weight", "bits"))
        shown, below = np.maximum(weight, FLOOR), weight < FLOOR
        look = {"s": 12, "cmap": "viridis", "zorder": 3, "vmin": 0, "vmax": 1e3 * bits.max()}
        points = axis.scatter(idf[~below], shown[~below], c=1e3 * bits[~below], **look)
        axis.scatter(idf[below], shown[below], c=1e3 * bits[below], marker="v", **look)
        axis.set_yscale("log")
        mark_plainly(axis.yaxis)
        farthest = dict.fromkeys([*np.argsort(-weight)[:5], *np.argsort(-bits)[:5], *np.argsort(weight)[:3]])
        every = list(zip(idf, shown, strict=True))
        named.append((axis, {terms["word"][one]: every[one] for one in farthest}, every))
        rho = first(results, f"{set_}_{kind}", "idf_correlation")
        rho = "" if rho is None else f", rank correlation {rho:+.2f}"
        title = f"{SETS[set_]}: {POOLINGS[kind]}{rho}"
        said.append(title)
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_xlabel("IDF")
        axis.set_ylabel("learned weight / uniform weight")
        figure.colorbar(points, ax=axis, label="information about the label, millibits")
    for axis in axes.flat[len(found) :]:
        axis.remove()
    for axis, words, every in named:
        label_points(axis, list(words), list(words.values()), other=every, must=False)
    marks = "one point per term"
    if any(min(terms["weight"]) < FLOOR for _, _, terms in found):
        marks += f"; triangles: terms with less than {FLOOR:g} of the uniform weight"
    save(figure, folder / "weights.png", caption(results, marks, seeds="1 seed"))
    return Figure(folder / "weights.png", "Learned weight of each term against its IDF", ". ".join(said))


def draw_marked(results: Results, folder: Path) -> Figure | None:
    """Draws test texts, each word with a background as dark as its weight, and the terms that are evidence for each
    class."""
    rows = [row for set_ in REAL for kind in ("idf", "token_weight", "query")
            for row in results.rows if row.id == f"{set_}_{kind}" and first(results, row.id, "marked")]  # fmt: skip
    if not rows:
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(len(rows), 1, figsize=(10.5, 3.2 * len(rows)), squeeze=False)
    for axis, row in zip(axes[:, 0], rows, strict=True):
        axis.axis("off")
        axis.set_title(row.name, loc="left", fontsize=11)
        place = 0.97
        for text in first(results, row.id, "marked")[:3]:
            place = _write(axis, text, place) - 0.11
        for name, words in (first(results, row.id, "speaking") or {}).items():
            axis.text(0, place, f"for {name}: {', '.join(words)}", fontsize=8, va="top", color="#0072B2")
            place -= 0.075
    save(figure, folder / "marked.png", caption(results, "dark background: large weight of the word", seeds="1 seed"))
    title = "Test texts with the weight of each word, and the words that are the strongest evidence for each class"
    return Figure(folder / "marked.png", title, f"{title}: {'; '.join(row.name for row in rows)}")


def _write(axis: Any, text: dict[str, Any], place: float) -> float:
    """Writes the words of a text in lines, downwards from `place`, and returns the height of the last line."""
    across, step = 0.0, 0.0076  # the width of a character at this size, as a share of the page width
    head = f"[{text['class']}, predicted {text['predicted']}]"
    for word, weight in [(head, 0.0), *zip(text["words"], text["weights"], strict=True)]:
        size = step * (len(word) + 1.4)
        if across + size > 1:
            across, place = 0.0, place - 0.075
        shade = {"facecolor": "#E69F00", "alpha": min(1.0, weight / 6), "edgecolor": "none", "pad": 1}
        axis.text(across, place, word, fontsize=8, va="top", family="monospace", bbox=shade if weight else None)
        across += size
    return place


def draw_sizes(results: Results, folder: Path) -> Figure | None:
    """Draws the accuracy against the number of training texts, with one panel for each real data set."""
    size = results.settings
    keys = [f"accuracy_{count}" for count in size["sizes"]] + ["accuracy"]
    names = [f"{count:,}" for count in size["sizes"]] + ["all"]
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, len(REAL), figsize=(10.5, 5), squeeze=False)
    drawn = []
    for axis, set_ in zip(axes[0], REAL, strict=True):
        rungs = [row for row in results.rows if row.id in {f"{set_}_{kind}" for kind in (*POOLINGS, "bag_of_words")}]
        looks = styles_of([*POOLINGS, "bag_of_words"])
        for row in rungs:
            style = looks[row.id.removeprefix(f"{set_}_")]
            values = [results.values(row.id, f"measure.{key}") for key in keys]
            if not all(values):
                continue
            means = [statistics.fmean(v) for v in values]
            label = row.name.split(": ")[-1]
            axis.plot(range(len(keys)), means, label=label, markersize=5, linewidth=1.3, **style)
            axis.fill_between(range(len(keys)), [min(v) for v in values], [max(v) for v in values],
                              color=style["color"], alpha=0.12, linewidth=0)  # fmt: skip
            drawn.append(f"{row.name} {means[-1]:.1f}")
        axis.set_xticks(range(len(keys)), names)
        axis.set_xlabel("number of training texts")
        axis.set_ylabel("test accuracy, %")
        axis.set_title(SETS[set_])
    if not drawn:
        pyplot.close(figure)
        return None
    legend(figure, columns=3)
    save(figure, folder / "sizes.png", caption(results, "lines: mean over seeds, bands: range of the seeds"))
    title = "Accuracy against the number of training texts, mean and range over seeds"
    return Figure(folder / "sizes.png", title, f"{title}. With all: {'; '.join(drawn)}.")


def draw_moved(results: Results, folder: Path) -> Figure | None:
    """Draws the vector of a word alone and in two contexts, projected on two principal components."""
    points = first(results, "imdb_self_attention", "moved")
    if not points:
        return None
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(8, 5.4))
    (word, *start), one, two, *others = points
    axis.plot(*start, "o", color="#000000")
    for (text, *end), colour in ((one, "#0072B2"), (two, "#D55E00")):
        arrow = {"arrowstyle": "->", "color": colour}
        axis.annotate("", end, start, arrowprops=arrow)
        axis.plot(*end, "s", color=colour, label=f"{word} in: {text}")
    for _, *place in others:
        axis.plot(*place, ".", color="#999999")
    legend(figure)
    axis.set_xlabel("first principal component")
    axis.set_ylabel("second principal component")
    axis.margins(0.1)
    names, ends = [word, *(name for name, *_ in others)], [tuple(one[1:]) for one in (one, two)]
    label_points(axis, names, [tuple(start), *(tuple(place) for _, *place in others)], size=9, other=ends)
    save(
        figure,
        folder / "moved.png",
        caption(results, "arrows: from the embedding to the output of X X^T", seeds="1 seed"),
    )
    title = f"The embedding of '{word}', and the output of self-attention X X^T for it in two contexts"
    return Figure(folder / "moved.png", title, f"{title}: {one[0]}; {two[0]}")
