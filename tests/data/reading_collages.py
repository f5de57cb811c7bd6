"""Reads the content of a collage of handmade digits from its pixels alone."""

from typing import NamedTuple

import numpy as np
from handmade_digits import SPLITS, grey

RGB = {"red": (255, 60, 60), "green": (60, 220, 60), "blue": (90, 130, 255), "yellow": (250, 220, 40),
       "purple": (235, 90, 235), "grey": (150, 150, 150)}  # fmt: skip
NUMBERS = "zero one two three four five six seven eight nine".split()
MEANING = {
    tuple(grey(digit, split) * part // 255 for part in rgb): (digit, split, colour)
    for digit in range(10) for split in SPLITS for colour, rgb in RGB.items()
}  # fmt: skip


class Seen(NamedTuple):
    cell: int
    digit: int
    colour: str
    split: str
    rows: int
    columns: int


def seen(image: np.ndarray, grid: int) -> list[Seen]:
    """The content of each cell, including clutter, by rows from 1. The painted pixels of a cell have one colour."""
    side = len(image) // grid
    found = []
    for cell in range(grid**2):
        top, left = (side * place for place in divmod(cell, grid))
        part = image[top : top + side, left : left + side]
        painted = np.argwhere(part.any(axis=2))
        if len(painted):
            (colour,) = {tuple(map(int, part[tuple(pixel)])) for pixel in painted}
            digit, split, name = MEANING[colour]
            rows, columns = np.ptp(painted, axis=0) + 1
            assert rows * columns == len(painted)  # a whole square
            found.append(Seen(cell + 1, digit, name, split, int(rows), int(columns)))
    return found
