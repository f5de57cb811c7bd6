"""Places the labels of points in a scatter plot so that few of them overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

#: The possible places of a label relative to its point, in typographic points, in order of preference: (x, y, side of
#: the label on which the point is).
PLACES = ((5, 3, "left"), (5, -8, "left"), (-5, 3, "right"), (-5, -8, "right"), (5, 11, "left"), (-5, 11, "right"),
          (5, -16, "left"), (-5, -16, "right"))  # fmt: skip
#: The width of a letter and the height of a line at font size 7, in typographic points.
LETTER, LINE = 3.7, 8.0
#: The width of a mark in typographic points.
MARK = 7.0


class Box(NamedTuple):
    """A rectangle in typographic points."""

    left: float
    low: float
    right: float
    high: float

    def meets(self, other: Box) -> bool:
        """Whether two rectangles overlap."""
        return self.left < other.right and other.left < self.right and self.low < other.high and other.low < self.high


def box(x: float, y: float, name: str, place: tuple[int, int, str]) -> Box:
    """Returns the rectangle of a label at a place relative to (x, y)."""
    wide = LETTER * len(name)
    left = x + place[0] - (wide if place[2] == "right" else 0.0)
    return Box(left, y + place[1] - 1, left + wide, y + place[1] - 1 + LINE)


def placed(names: Sequence[str], at: Sequence[tuple[float, float]], width: float) -> list[tuple[int, int, str]]:
    """Chooses a place of `PLACES` for each label: the first that overlaps no mark and no earlier label, or else the one
    with the fewest overlaps.

    Positions are in typographic points, and labels stay left of `width`.
    """
    marks = [Box(x - MARK / 2, y - MARK / 2, x + MARK / 2, y + MARK / 2) for x, y in at]
    found: list[tuple[int, int, str]] = []
    taken: list[Box] = []
    for number, (name, (x, y)) in enumerate(zip(names, at, strict=True)):
        there = [*marks[:number], *marks[number + 1 :], *taken]
        boxes = [box(x, y, name, place) for place in PLACES]
        meetings = [
            sum(one.meets(other) for other in there) + 10 * (one.left < 0 or one.right > width) for one in boxes
        ]
        best = meetings.index(min(meetings))
        found.append(PLACES[best])
        taken.append(boxes[best])
    return found
