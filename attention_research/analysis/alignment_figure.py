"""Draws alignments as heat maps, Bahdanau et al. 2015, figure 3: rows are target words, columns are source words.

The tokens of the model may be pieces of words. The weights of the pieces of a source word are summed, and those of the
pieces of a target word are averaged. The sum of a row is therefore the same for words as for tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from attention_research.tokens import UNKNOWN

_MARK = "\N{LOWER ONE EIGHTH BLOCK}"  # marks the start of a word
_CELL, _SMALL_CELL, _WIDTH, _BAR = 0.25, 0.2, 11.0, 0.9  # inches: a cell, the widest figure, the colour bar
_MANY = 6  # with more maps than this, cells are small


def words_of(tokenizer: Any, tokens: Sequence[int]) -> tuple[list[str], list[list[int]]]:
    """(words, positions of the tokens of each word). The end of the sentence is a separate word."""
    words: list[str] = []
    members: list[list[int]] = []
    for place, (token, piece) in enumerate(zip(tokens, tokenizer.pieces(tokens), strict=True)):
        special = token <= UNKNOWN
        if special or piece.startswith(_MARK) or not words or tokens[place - 1] <= UNKNOWN:
            words.append(piece if special else piece.removeprefix(_MARK).replace(_MARK, " "))
            members.append([place])
        else:
            words[-1] += piece
            members[-1].append(place)
    return words, members


def over_words(
    weights: Float[np.ndarray, "T S"], written: Sequence[Sequence[int]], read: Sequence[Sequence[int]]
) -> Float[np.ndarray, "M N"]:
    """The weights between words: summed over the tokens of a source word, averaged over those of a target word.

    >>> over_words(np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]]), [[0, 1]], [[0], [1, 2]]).tolist()
    [[0.25, 0.75]]
    """
    columns = np.stack([weights[:, list(places)].sum(1) for places in read], axis=1)
    return np.stack([columns[list(places)].mean(0) for places in written])


def as_map(tokenizer: Any, source: Sequence[int], target: Sequence[int], weights: np.ndarray) -> dict[str, Any]:
    """The map of one sentence as JSON: "source" and "target" words, and "weights" with a row for each target word."""
    read, read_members = words_of(tokenizer, source)
    written, written_members = words_of(tokenizer, target)
    merged = over_words(np.asarray(weights, np.float64), written_members, read_members)
    return {"source": read, "target": written, "weights": np.round(merged, 4).tolist()}


def figure_of(maps: Sequence[Mapping[str, Any]]) -> Any:
    """The matplotlib figure: a panel for each map, with words on the axes. As in the paper, white is weight 1."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    cells = [np.asarray(one["weights"]).shape for one in maps]
    letters = max(len(_shown(word)) for one in maps for word in [*one["source"], *one["target"]])
    names, cell = 0.068 * min(letters, 18) + 0.15, _SMALL_CELL if len(maps) > _MANY else _CELL
    panel = max(n for _, n in cells) * cell + names
    across = max(1, min(len(maps), int((_WIDTH - _BAR) / panel)))
    across = math.ceil(len(maps) / math.ceil(len(maps) / across))  # lines of equal length, as far as possible
    lines = [range(i, min(i + across, len(maps))) for i in range(0, len(maps), across)]
    heights = [max(cells[i][0] for i in line) * cell + names + 0.45 for line in lines]
    with matplotlib.rc_context({"font.family": "sans-serif", "text.parse_math": False, "axes.linewidth": 0.5}):
        figure = Figure(figsize=(across * panel + _BAR, sum(heights)), layout="constrained", facecolor="white")
        FigureCanvasAgg(figure)
        panels = figure.subplots(len(lines), across, squeeze=False, height_ratios=heights).ravel()
        for axes, one in zip(panels, maps, strict=False):
            image = axes.imshow(np.asarray(one["weights"]), cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
            axes.set_xticks(range(len(one["source"])), list(map(_shown, one["source"])), rotation=90, fontsize=8)
            axes.set_yticks(range(len(one["target"])), list(map(_shown, one["target"])), fontsize=8)
            axes.xaxis.tick_top()
            axes.tick_params(length=0, pad=3)
            axes.grid(False)
            axes.set_title(one.get("title", ""), loc="left", fontsize=9)
            axes.set_anchor("NW")
        for axes in panels[len(maps) :]:
            axes.remove()
        figure.colorbar(image, ax=list(panels[: len(maps)]), shrink=min(1.0, 2.4 / sum(heights)), label="weight")
    return figure


def _shown(word: str) -> str:
    """A word without the mark of its start."""
    return word.replace(_MARK, " ").strip() or word
