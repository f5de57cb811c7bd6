"""Texts that are each about one picture: captions, questions. A picture is kept once, however many are about it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import ClassVar, Self

import numpy as np

from attention_research.data.in_memory import InMemory
from attention_research.data.protocol import Batch


class PictureTexts(InMemory):
    """A set gives `_made`, all texts of a split as arrays, of `train_shapes` without "image", and two functions.

    Examples are texts; `numbers` are how many there are. A batch has the texts' arrays, int32, and "image" [B Y X C]
    uint8, 0 to 255: of each text its picture; rows that only fill it are 0, or `fill` by name.
    """

    #: Arrays of a batch that are not int32.
    dtypes: ClassVar[dict[str, str]] = {"image": "uint8"}

    def __init__(self) -> None:
        super().__init__()
        self._report: Callable[[str], None] = lambda line: None

    def prepare(self, progress: Callable[[str], None] | None = None) -> Self:
        """Make or fetch the training split, so that what takes time is reported; later it is there."""
        self._report = progress or self._report
        self.arrays("train")
        return self

    def pictures_of(self, split: str, texts: np.ndarray) -> np.ndarray:
        """[n] the numbers of the pictures that some texts are about."""
        raise NotImplementedError

    def images(self, split: str, pictures: np.ndarray) -> np.ndarray:
        """uint8 [n Y X C] of some pictures by their numbers."""
        raise NotImplementedError

    def _taken(self, split: str, ids: np.ndarray, rows: int) -> Batch:
        (shapes,) = self.train_shapes(rows)
        batch = {name: np.full(x, self.fill.get(name, 0), self.dtypes.get(name, "int32")) for name, x in shapes.items()}
        for name, array in self.arrays(split).items():
            batch[name][: len(ids)] = array[ids]
        batch["image"][: len(ids)] = self.images(split, self.pictures_of(split, ids))
        return batch


def padded(rows: list[list[int]], width: int) -> np.ndarray:
    """Lists of at most so many numbers as int32 [n width], 0 behind them.

    >>> padded([[5, 7], []], 3).tolist()
    [[5, 7, 0], [0, 0, 0]]
    """
    array = np.zeros((len(rows), width), np.int32)
    for row, numbers in enumerate(rows):
        array[row, : len(numbers)] = numbers
    return array


def digests(*arrays: np.ndarray) -> list[str]:
    """The SHA-256 of the bytes of each array."""
    return [hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() for array in arrays]
