"""Where the names of points stand in a scatter, so that few lie on each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

#: Beside a point, in points of type: (x, y, on which side of the name the point is), the first that is free is taken.
PLACES = ((5, 3, "left"), (5, -8, "left"), (-5, 3, "right"), (-5, -8, "right"), (5, 11, "left"), (-5, 11, "right"),
          (5, -16, "left"), (-5, -16, "right"))  # fmt: skip
#: Points of type that a letter is wide and a line high at size 7.
LETTER, LINE = 3.7, 8.0
#: Points of type that a mark is wide.
MARK = 7.0


class Box(NamedTuple):
    """A rectangle, in points of type."""

    left: float
    low: float
    right: float
    high: float

    def meets(self, other: Box) -> bool:
        """Whether they overlap."""
        return self.left < other.right and other.left < self.right and self.low < other.high and other.low < self.high


def box(x: float, y: float, name: str, place: tuple[int, int, str]) -> Box:
    """What a name covers at a place beside (x, y)."""
    wide = LETTER * len(name)
    left = x + place[0] - (wide if place[2] == "right" else 0.0)
    return Box(left, y + place[1] - 1, left + wide, y + place[1] - 1 + LINE)


def placed(names: Sequence[str], at: Sequence[tuple[float, float]], width: float) -> list[tuple[int, int, str]]:
    """A place of `PLACES` for each name, the points given in points of type and names kept left of `width`: the first
    that meets no mark and no name placed before, else the one that meets the fewest."""
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
