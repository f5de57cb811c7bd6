"""Texts about one picture each: captions, questions. A picture with several texts is stored once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import ClassVar, Self

import numpy as np

from attention_research.data.in_memory import InMemory
from attention_research.data.protocol import Batch


class PictureTexts(InMemory):
    """Base class of texts about pictures. A subclass defines `pictures_of`, `images` and `_made`, which makes all texts
    of a split as arrays with the shapes of `train_shapes` without "image".

    An example is a text; `numbers` counts the texts. A batch has the arrays of the texts, int32, and "image" [B Y X C]
    uint8, 0 to 255, the picture of each text. Rows that only fill a batch have the value `fill[name]`, or 0.
    """

    #: Arrays of a batch that are not int32 -> their dtype.
    dtypes: ClassVar[dict[str, str]] = {"image": "uint8"}

    def __init__(self) -> None:
        super().__init__()
        self._report: Callable[[str], None] = lambda line: None

    def prepare(self, progress: Callable[[str], None] | None = None) -> Self:
        """Makes or downloads the training split and reports the slow steps; later calls reuse it."""
        self._report = progress or self._report
        self.arrays("train")
        return self

    def pictures_of(self, split: str, texts: np.ndarray) -> np.ndarray:
        """[n] the number of the picture of each text."""
        raise NotImplementedError

    def images(self, split: str, pictures: np.ndarray) -> np.ndarray:
        """The pictures with the given numbers, uint8 [n Y X C]."""
        raise NotImplementedError

    def _taken(self, split: str, ids: np.ndarray, rows: int) -> Batch:
        (shapes,) = self.train_shapes(rows)
        batch = {name: np.full(x, self.fill.get(name, 0), self.dtypes.get(name, "int32")) for name, x in shapes.items()}
        for name, array in self.arrays(split).items():
            batch[name][: len(ids)] = array[ids]
        batch["image"][: len(ids)] = self.images(split, self.pictures_of(split, ids))
        return batch


def padded(rows: list[list[int]], width: int) -> np.ndarray:
    """Lists of at most `width` numbers as int32 [n width], padded with 0.

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
