"""Faults of a matplotlib figure that a reader would see: colliding or cut texts, marks with two meanings, impossible
values, axes without a name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib import text as texts
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.container import BarContainer

#: Widest figure in inches, and smallest letters in points. A page shows a figure about 8 inches wide.
WIDEST, SMALLEST = 11.3, 7
#: Pixels by which boxes of texts may overlap, since a box is larger than its letters.
SLACK = 2.0
#: What an axis says -> the least and the largest value that it can show.
POSSIBLE = (
    (re.compile(r"^(?!.*(error|minus|difference)).*(accuracy|recall|F1|BLEU|precision).*%"), (0.0, 100.0)),
    (re.compile(r"error.*%|BLEU|perplexity|milliseconds|megabytes", re.IGNORECASE), (0.0, np.inf)),
    (re.compile(r"^(share(?!.*%)|recall|next-token accuracy, share)"), (0.0, 1.0)),
)


def drawn_texts(figure: Any, monkeypatch: Any) -> list[tuple[str, np.ndarray, float]]:
    """(words, corners on the page, size) of each text that is drawn."""
    found: list[tuple[str, np.ndarray, float]] = []
    draw = texts.Text.draw

    def noted(self: texts.Text, renderer: Any, *args: Any, **options: Any) -> None:
        draw(self, renderer, *args, **options)
        if self.get_visible() and self.get_text().strip():
            found.append((self.get_text(), corners(self, renderer), self.get_fontsize()))

    with monkeypatch.context() as patched:
        patched.setattr(texts.Text, "draw", noted)
        figure.draw_without_rendering()
    return found


def corners(text: texts.Text, renderer: Any) -> np.ndarray:
    """The corners of a text's box, turned as the text is."""
    turned = text.get_rotation()
    around = text.get_window_extent(renderer)
    text.set_rotation(0 if turned % 90 else turned)
    box = text.get_window_extent(renderer)
    text.set_rotation(turned)
    points = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * (box.width / 2, box.height / 2)
    angle = np.deg2rad(turned if turned % 90 else 0)
    turn = np.array([(np.cos(angle), np.sin(angle)), (-np.sin(angle), np.cos(angle))])
    return points @ turn + ((around.x0 + around.x1) / 2, (around.y0 + around.y1) / 2)


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """How far two rectangles reach into each other; at most 0 if they are apart (the separating axis theorem)."""
    depths = []
    for box in (one, other):
        for edge in (box[1] - box[0], box[2] - box[1]):
            length = np.hypot(*edge)
            if length:
                a, b = one @ edge / length, other @ edge / length
                depths.append(min(a.max(), b.max()) - max(a.min(), b.min()))
    return min(depths)


def near_pairs(drawn: list[tuple[str, np.ndarray, float]]) -> Iterator[tuple[Any, Any]]:
    """The pairs of texts whose upright bounding boxes overlap. No other pair can overlap."""
    if drawn:
        boxes = np.stack([box for _, box, _ in drawn])
        low, high = boxes.min(axis=1), boxes.max(axis=1)
        near = (low[:, None] < high).all(axis=-1) & (low < high[:, None]).all(axis=-1)
        for i, j in np.argwhere(np.triu(near, 1)):
            yield drawn[i], drawn[j]


def collisions(figure: Any, monkeypatch: Any) -> list[str]:
    """Texts that overlap, leave the page, or have small letters; and legends that cover a panel."""
    found, drawn = [], drawn_texts(figure, monkeypatch)
    for (words, box, _), (others, other, _) in near_pairs(drawn):
        if overlap(box, other) > SLACK:
            found.append(f"{words!r} overlaps {others!r}")
    page = figure.get_tightbbox().extents * figure.dpi
    for words, box, size in drawn:
        if (box.min(0) < page[:2] - SLACK).any() or (box.max(0) > page[2:] + SLACK).any():
            found.append(f"{words!r} leaves the page")
        if size < SMALLEST:
            found.append(f"{words!r} has {size:g} points")
    legends = [*figure.legends, *filter(None, (axis.get_legend() for axis in figure.axes))]
    for legend in legends:
        box = legend.get_window_extent()
        for axis in figure.axes:
            inside = axis.get_window_extent()
            across, up = (min(getattr(box, f"{d}1"), getattr(inside, f"{d}1")) -
                          max(getattr(box, f"{d}0"), getattr(inside, f"{d}0")) for d in "xy")  # fmt: skip
            if across > SLACK and up > SLACK:
                found.append(f"the legend {[one.get_text() for one in legend.get_texts()][:2]} covers a panel")
    width = (page[2] - page[0]) / figure.dpi
    return found + ([f"{width:.1f} inches wide"] if width > WIDEST else [])


def looks(figure: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """(label, look) of each line that a legend names."""
    from matplotlib.colors import to_hex

    for axis in figure.axes:
        for line in axis.get_lines():
            if not line.get_label().startswith("_"):
                face = to_hex(line.get_markerfacecolor()) if line.get_markerfacecolor() != "none" else "none"
                marker = line.get_marker() if line.get_marker() not in ("None", None) else ""
                dashes = str(line._unscaled_dash_pattern) if line.get_linestyle() != "None" else ""
                yield line.get_label(), (to_hex(line.get_color()), marker, dashes, face if marker else "")


def two_meanings(figure: Any) -> list[str]:
    """Labels with two looks, and looks with two labels."""
    by_label: dict[str, set] = {}
    by_look: dict[tuple, set] = {}
    for label, look in looks(figure):
        label = re.sub(r": [\d.,]+( \(outside\))?$", "", label)  # a baseline, whose number differs by panel
        by_label.setdefault(label, set()).add(look)
        by_look.setdefault(look, set()).add(label)
    found = [
        f"{label!r} has the looks {sorted(map(str, known))}" for label, known in by_label.items() if len(known) > 1
    ]
    return found + [f"{sorted(known)} look the same" for known in by_look.values() if len(known) > 1]


def _named(axis: Any, which: str) -> str:
    """The name of an axis of a panel: its own, or that of a panel with which it is shared."""
    of = lambda one: getattr(one, f"get_{which}label")()
    shared = getattr(axis, f"get_shared_{which}_axes")().get_siblings(axis)
    return of(axis) or next(filter(None, map(of, shared)), "")


def impossible(figure: Any) -> list[str]:
    """Values beyond what their axis can show, by the name of the axis."""
    found = []
    for axis in figure.axes:
        for which, column in (("x", 0), ("y", 1)):
            name = " ".join(_named(axis, which).split())
            bounds = next((bounds for pattern, bounds in POSSIBLE if pattern.search(name)), None)
            if bounds is None:
                continue
            paths = [line.get_xydata() for line in axis.get_lines() if line.get_transform() == axis.transData]
            lines_and_areas = [one for one in axis.collections if isinstance(one, PolyCollection | LineCollection)]
            paths += [path.vertices for one in lines_and_areas for path in one.get_paths()]
            values = np.concatenate([np.asarray(path, float)[:, column] for path in paths if len(path)] or [[]])
            values = values[np.isfinite(values)]
            if len(values) and (values.min() < bounds[0] - 1e-6 or values.max() > bounds[1] + 1e-6):
                found.append(f"{name!r} shows {values.min():g} to {values.max():g}")
    return found


def without_name(figure: Any) -> list[str]:
    """Axes with numbers but without a name, and bars that do not start at 0."""
    found = []
    for number, axis in enumerate(figure.axes):
        if axis.name == "3d" or not axis.axison or axis.get_label() == "<colorbar>":
            continue
        for which in "xy":
            ticks = [one.get_text() for one in getattr(axis, f"get_{which}ticklabels")() if one.get_visible()]
            numbers = [one for one in ticks if re.fullmatch(r"[−-]?[\d.,]*\d|\$.*\$", one)]
            over_all = getattr(figure, f"get_sup{which}label")()
            title = axis.get_title(loc="left") or axis.get_title()
            if 1 < len(numbers) == len(ticks) and not (over_all or _named(axis, which) or title):
                found.append(f"panel {number} has numbers on {which} but no name")
        for bars in (one for one in axis.containers if isinstance(one, BarContainer)):
            low = axis.get_ylim()[0] if bars.orientation == "vertical" else axis.get_xlim()[0]
            if low > 0:
                found.append(f"the bars of panel {number} start at {low:g}")
    return found
