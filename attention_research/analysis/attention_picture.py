"""Draws attention with a panel for each layer and head and tokens on both axes (after Bahdanau et al. 2015, figure 3).

Darker cells have larger weights, and a dot marks the largest weight of each row, so the picture does not depend on hue.
Negative weights, which some kinds of attention have, are red.
A long sentence has smaller cells, and if necessary a label only at every second, third, ... token.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention_research.analysis.attention import Attention, AttentionMap

_DPI = 110
_CELL = 0.17  # inches, if the cells fit into _AREA square inches
_AREA = 1500.0
_NAME = 0.115  # the minimum distance between two labels, in inches
_LONGEST_NAME = 14
_GAP, _TITLE, _HEADING, _BAR = 0.16, 0.24, 0.5, 0.9


def draw(attention: Attention, path: Path) -> None:
    """Writes the PNG."""
    words = {"Title": "Attention weights by layer and head", "Description": " ".join(_head(attention, 80))}
    figure_of(attention).savefig(path, format="png", metadata={**words, "Software": None})


def figure_of(attention: Attention) -> Any:
    """The matplotlib figure of the first pass, with a block of panels for each kind of attention from top to bottom."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    maps = attention.passes[0].maps
    cells = sum(one.weights.size for one in maps)
    blocks = [_Block(one, min(_CELL, math.sqrt(_AREA / cells))) for one in maps]
    width = max(7.0, *(block.width for block in blocks))
    head = _head(attention, columns=int(width * 11))
    top = 0.25 + 0.2 * len(head)
    height = top + sum(block.height for block in blocks)
    plain: Any = {"font.family": "sans-serif", "axes.linewidth": 0.5, "axes.grid": False, "text.parse_math": False}
    plain["figure.constrained_layout.use"] = False
    with matplotlib.rc_context(plain):
        figure = Figure(figsize=(width, height), dpi=_DPI, facecolor="white")
        FigureCanvasAgg(figure)
        figure.text(0.15 / width, 1 - 0.15 / height, "\n".join(head), va="top", fontsize=10, linespacing=1.4)
        for block in blocks:
            block.draw(figure, top)
            top += block.height
    return figure


def _head(attention: Attention, columns: int) -> list[str]:
    lines = [f"{name}: {text}" for name, text in attention.passes[0].sentences.items()]
    facts = " · ".join(f"{name} {value}" for name, value in attention.facts.items())
    red = "; red cells have negative weights" if any(one.has_negative for one in attention.passes[0].maps) else ""
    shown = f"darker cells have larger weights, a dot marks the largest weight of a row{red}; · marks a continued word"
    return [part for line in [*lines, f"{shown}; {facts}"] for part in textwrap.wrap(line, columns)]


class _Block:
    """The panels of one kind of attention, with layers as rows and heads as columns."""

    def __init__(self, shown: AttentionMap, cell: float):
        self.map, self.cell = shown, cell
        self.every = math.ceil(_NAME / cell)
        self.font = min(9.0, 72 * 0.62 * cell * self.every)
        layers, heads, queries, keys = shown.weights.shape
        room = lambda names: 0.12 + max(min(len(name), _LONGEST_NAME) for name in names) * self.font * 0.62 / 72
        self.left, self.below = room(shown.queries) + 0.3, room(shown.keys)
        self.panel = (keys * cell, queries * cell)
        self.across = max(self.panel[0] + _GAP, 1.0)
        self.down = _TITLE + self.panel[1] + self.below
        self.width = self.left + heads * self.across + _BAR
        self.height = _HEADING + layers * self.down + 0.15

    def draw(self, figure: Any, top: float) -> None:
        """Draws all panels, `top` inches below the upper edge of the figure."""
        width, height = figure.get_size_inches()
        place = lambda x, y, w, h: (x / width, 1 - (y + h) / height, w / width, h / height)
        where = f"rows: {self.map.rows}, columns: {self.map.columns}"
        if self.every > 1:
            where += f"; one name for every {self.every} tokens"
        figure.text(0.15 / width, 1 - (top + 0.1) / height, self.map.title, va="top", fontsize=12, fontweight="bold")
        figure.text(0.15 / width, 1 - (top + 0.31) / height, where, va="top", fontsize=8, color="#444444")
        most = float(abs(self.map.weights).max())
        for l, heads in enumerate(self.map.weights):
            y = top + _HEADING + l * self.down + _TITLE
            for n, weights in enumerate(heads):
                axes = figure.add_axes(place(self.left + n * self.across, y, *self.panel))
                image = self._panel(axes, weights, most, names_left=n == 0)
                axes.set_title(f"layer {self.map.layers.numbers[l]} · head {n + 1}", fontsize=8, pad=3, loc="left")
            if l == 0:
                tall = min(self.panel[1], 2.0)
                bar = figure.add_axes(place(self.left + len(heads) * self.across + 0.1, y, 0.12, tall))
                figure.colorbar(image, cax=bar).ax.tick_params(labelsize=7, length=2)

    def _panel(self, axes: Any, weights: np.ndarray, most: float, *, names_left: bool) -> Any:
        colours = {"cmap": "RdBu", "vmin": -most} if self.map.has_negative else {"cmap": "Blues", "vmin": 0.0}
        image = axes.imshow(weights, **colours, vmax=most, aspect="auto", interpolation="nearest")
        size = 72 * self.cell
        axes.plot(
            weights.argmax(1), range(len(weights)), linestyle="none", marker="o", markersize=0.34 * size,
            markerfacecolor="white", markeredgecolor="black", markeredgewidth=0.05 * size,
        )  # fmt: skip
        self._names(axes.xaxis, self.map.keys, rotation=90)
        self._names(axes.yaxis, self.map.queries if names_left else (), rotation=0)
        axes.tick_params(length=0, pad=2, labelsize=self.font)
        return image

    def _names(self, axis: Any, names: Sequence[str], rotation: float) -> None:
        places = range(0, len(names), self.every)
        axis.set_ticks(list(places), [_short(names[i]) for i in places], rotation=rotation)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
