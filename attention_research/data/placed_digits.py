"""Classification of one digit at a random place among clutter: images of `collages` with a single object.

The task is for models that attend to parts of a picture: only the digit determines the class, its place is random, and
"cells" holds the correct cell (counted by rows from 1; 0 in rows that only fill a batch).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import ClassVar, Self

import numpy as np

from attention_research.data import storage
from attention_research.data.collages import DIGITS, Layout, collages, in_colours
from attention_research.data.in_memory import InMemory
from attention_research.data.protocol import Batch
from attention_research.signatures import Positive, Rate


class PlacedDigits(InMemory):
    """A batch is {"image" [B side side 3] uint8, "label" [B], "cells" [B]}; `clutter` is the fraction of the other
    cells that hold a grey fragment of a digit. The classes are the words for 0 to 9.

    `validation_examples` and `test_examples` are the numbers of examples of these splits.
    """

    classes = DIGITS
    fill: ClassVar[Mapping[str, int]] = {"label": -1}
    dtypes: ClassVar[Mapping[str, str]] = {"image": "uint8"}
    evaluation_seed = 1807

    def __init__(
        self,
        *,
        side: Positive,
        channels: Positive = 3,
        grid: Positive = 3,
        clutter: Rate = 0.75,
        train_examples: Positive = 8000,
        validation_examples: Positive = 1000,
        test_examples: Positive = 2000,
    ):
        in_colours(channels)
        self.name, self.max_length, self.side = "placed digits", 1, side
        self.layout = Layout(side, grid, 1, 1, clutter)
        self.numbers = {"train": train_examples, "validation": validation_examples, "test": test_examples}
        self._report: Callable[[str], None] = lambda line: None
        super().__init__()

    def prepare(self, progress: Callable[[str], None] | None = None) -> Self:
        """Draws the training split and reports the slow steps; later calls reuse it."""
        self._report = progress or self._report
        self.arrays("train")
        return self

    def _made(self, split: str) -> Batch:
        drawn = collages(split, self.numbers[split], self.layout, self._report)
        cells = np.argmax(drawn["digit"] >= 0, axis=1)
        label = np.take_along_axis(drawn["digit"], cells[:, None], axis=1)[:, 0]
        return {
            "image": drawn["image"],
            "label": label.astype(np.int32),
            "cells": (cells + 1).astype(np.int32),
        }

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of the settings that determine the pictures, and of the test split."""
        arrays = [array.tobytes().hex() for _, array in sorted(self.arrays("test").items())]
        return storage.content_hash([self.name, repr(self.layout), self.numbers], arrays)

    def describe(self) -> str:
        """A one-line description for the user."""
        return f"{self.name} · {self.numbers['train']:,} pictures of {self.side} x {self.side} pixels"

    def labels(self, split: str) -> np.ndarray:
        """The class numbers [n] of a split, indexed by example id."""
        return self.arrays(split)["label"]

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training; makes nothing."""
        return [{"image": (batch_size, self.side, self.side, 3), "label": (batch_size,), "cells": (batch_size,)}]
