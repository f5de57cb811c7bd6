"""Figures of reviews with marked rationales, the words that a rating is based on (after Lei et al. 2016, figures 1, 3).

Several raters, one for each aspect, mark the same review. Each has its own colour and its own kind of frame, so that
raters can be told apart without colour. A line under a word, in the rater's colour, marks a gold word if it is known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

_COLUMNS, _FONT = 96, 9.0
#: In inches: the width of a letter of DejaVu Sans Mono at this font size, and the height of a line.
_LETTER, _LINE, _MARGIN, _INDENT = 0.602 * _FONT / 72, 0.24, 0.15, 2
_MARKS = (("#56B4E9", "-"), ("#E69F00", "--"), ("#CC79A7", ":"), ("#009E73", "-."))


@dataclasses.dataclass(frozen=True)
class Marks:
    """The output of one rater for a review: the selected words, the predicted and the true rating, and the gold
    words."""

    name: str
    selected: Sequence[bool]
    predicted: float
    rating: float
    gold: Sequence[bool] | None = None

    def said(self) -> str:
        """Returns the rating as text."""
        return f"{self.name}: {self.predicted:.2f} (true {self.rating:.2f})"


@dataclasses.dataclass(frozen=True)
class Marked:
    """The words of a review and the marks of its raters."""

    title: str
    words: Sequence[str]
    marks: Sequence[Marks]


def places(words: Sequence[str], columns: int = _COLUMNS) -> list[tuple[int, int]]:
    """Returns (line, column) of each word, with one space between words and lines of at most `columns` letters.

    >>> places(["one", "two", "three"], 8)
    [(0, 0), (0, 4), (1, 0)]
    """
    found, line, column = [], 0, 0
    for word in words:
        if column and column + len(word) > columns:
            line, column = line + 1, 0
        found.append((line, column))
        column += len(word) + 1
    return found


def figure_of(reviews: Sequence[Marked]) -> Any:
    """Returns the matplotlib figure with one review below the other."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    laid = [places(review.words) for review in reviews]
    lines = sum(2 + place[-1][0] + 1.5 for place in laid)
    width, height = 2 * _MARGIN + (_COLUMNS + 2 * _INDENT) * _LETTER, 2 * _MARGIN + lines * _LINE
    with matplotlib.rc_context({"font.family": "monospace", "text.parse_math": False}):
        figure = Figure(figsize=(width, height), facecolor="white", layout="none")
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set(xlim=(0, width), ylim=(height, 0))
        top = _MARGIN
        for review, place in zip(reviews, laid, strict=True):
            _heading(axes, review, top)
            _review(axes, review, place, top + 2 * _LINE)
            top += (2 + place[-1][0] + 1.5) * _LINE
    return figure


def _heading(axes: Any, review: Marked, top: float) -> None:
    """Draws the title and, below it, the mark of each rater with its rating."""
    axes.text(_MARGIN, top + _LINE / 2, review.title, fontsize=_FONT, weight="bold", va="center")
    column = _INDENT
    for marks, style in zip(review.marks, _MARKS, strict=False):
        left, letters = _MARGIN + column * _LETTER, len(marks.said())
        _frame(axes, left, top + _LINE, letters, style)
        axes.text(left, top + 1.5 * _LINE, marks.said(), fontsize=_FONT, va="center")
        column += letters + 3


def _review(axes: Any, review: Marked, place: list[tuple[int, int]], top: float) -> None:
    """Draws the words. Selected words are framed and gold words are underlined."""
    for number, (word, (line, column)) in enumerate(zip(review.words, place, strict=True)):
        left, upper = _MARGIN + (_INDENT + column) * _LETTER, top + line * _LINE
        for marks, style in zip(review.marks, _MARKS, strict=False):
            if marks.selected[number]:
                _frame(axes, left, upper, len(word), style)
            if marks.gold is not None and marks.gold[number]:
                under = upper + 0.93 * _LINE
                axes.plot([left, left + len(word) * _LETTER], [under, under], color=style[0], linewidth=1.6)
        axes.text(left, upper + _LINE / 2, word, fontsize=_FONT, va="center")


def _frame(axes: Any, left: float, top: float, letters: int, style: tuple[str, str]) -> None:
    from matplotlib.patches import Rectangle

    colour, line = style
    corner, size = (left - 0.02, top + 0.1 * _LINE), (letters * _LETTER + 0.04, 0.78 * _LINE)
    axes.add_patch(Rectangle(corner, *size, facecolor=colour, alpha=0.35, linewidth=0))
    axes.add_patch(Rectangle(corner, *size, facecolor="none", edgecolor="black", linewidth=0.8, linestyle=line))
