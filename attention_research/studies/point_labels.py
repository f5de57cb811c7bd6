"""Names points of a panel so that no name covers another name, a point, or the edge of the panel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_research.analysis.picture_file import freeze

#: Directions in which a name is tried, as (horizontal, vertical), in this order.
_SIDES = ((1, 0.6), (1, -0.6), (-1, 0.6), (-1, -0.6), (0, 1), (0, -1), (1, 0), (-1, 0))
#: Distances from a point, in points of the page. A name farther than the first ones has a line to its point.
_DISTANCES = (5, 9, 16, 24, 34, 46, 60)
_WITHOUT_LINE = 9
#: The radius of a point, in points of the page.
_RADIUS = 3.5


def label_points(
    axis: Any,
    names: Sequence[str],
    places: Sequence[tuple[float, float]],
    *,
    colours: Sequence[str] = (),
    size: float = 8,
    other: Sequence[tuple[float, float]] = (),
    radii: Sequence[float] = (),
    must: bool = True,
) -> list[str]:
    """Writes each name next to its point, where it overlaps least, and returns the names that were written.

    Call it last: the limits of the panel stay as they are from here on. `other` are further points that no name may
    cover, and `radii` the sizes of the points on the page. A name without a free place is written at the best one, or
    left out unless `must`.
    """
    figure = axis.figure
    axis.set_xlim(axis.get_xlim())
    axis.set_ylim(axis.get_ylim())
    freeze(figure)
    renderer, pixels = figure.canvas.get_renderer(), figure.dpi / 72
    frame = axis.get_window_extent().extents
    at = [tuple(axis.transData.transform(place)) for place in places]
    sizes = [radius * pixels for radius in radii] or [_RADIUS * pixels] * len(at)
    marks = [_around(x, y, size) for (x, y), size in zip(at, sizes, strict=True)]
    marks += [_around(x, y, _RADIUS * pixels) for x, y in axis.transData.transform(list(other) or [places[0]])]
    taken = np.array(marks)  # and the names that are already written, as (left, low, right, high)
    written = []
    for number, (name, (x, y)) in enumerate(zip(names, at, strict=True)):
        text = axis.annotate(name, places[number], xytext=(0, 0), textcoords="offset points", fontsize=size)
        if colours:
            text.set_color(colours[number])
        extent = text.get_window_extent(renderer)
        tried = [
            (_beside(x, y, extent.width, extent.height, side, distance), distance)
            for distance in np.array(_DISTANCES) * pixels + 0.8 * sizes[number] - _RADIUS * pixels
            for side in _SIDES
        ]
        costs = [_cost(box, taken, frame) + 0.01 * math.log1p(distance) for box, distance in tried]
        cost = min(costs)
        box, distance = tried[costs.index(cost)]
        if cost >= 1 and not must:
            text.remove()
            continue
        text.set_position(((box[0] - x) / pixels, (box[1] - y) / pixels))
        if distance > _WITHOUT_LINE * pixels + sizes[number]:
            end = (min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3]))
            line = axis.transData.inverted().transform([(x, y), end])
            axis.plot(line[:, 0], line[:, 1], color="#aaaaaa", linewidth=0.6, zorder=1)
        taken = np.vstack([taken, box])
        written.append(name)
    return written


def _beside(
    x: float, y: float, width: float, height: float, side: tuple[float, float], distance: float
) -> tuple[float, float, float, float]:
    """The box of a name at a distance from a point."""
    across, up = side
    left = x + across * distance - (width if across < 0 else width / 2 if across == 0 else 0)
    low = y + up * distance - (height if up < 0 else height / 2 if up == 0 else 0)
    return left, low, left + width, low + height


def _around(x: float, y: float, radius: float) -> tuple[float, float, float, float]:
    return x - radius, y - radius, x + radius, y + radius


def _cost(box: tuple[float, float, float, float], taken: np.ndarray, frame: np.ndarray) -> float:
    """The area of a box that covers others, and four times the area outside of the panel."""
    area = (box[2] - box[0]) * (box[3] - box[1])
    return float(_common(box, taken).sum() + 4 * (area - _common(box, frame[None])[0]))


def _common(box: tuple[float, float, float, float], others: np.ndarray) -> np.ndarray:
    """The areas that a box shares with others."""
    across = np.minimum(box[2], others[:, 2]) - np.maximum(box[0], others[:, 0])
    up = np.minimum(box[3], others[:, 3]) - np.maximum(box[1], others[:, 1])
    return np.maximum(across, 0) * np.maximum(up, 0)
