"""Labelled token sequences, all in memory; batches are a pure function of (seed, step).

A batch is {"source" [B S], "label" [B]} and other arrays of a set, all int32. "source" holds tokens, 0 at padding;
"label" is the class, -1 in rows that only fill a batch. Every batch has the width `max_length`. The sets of the Long
Range Arena share this module: a set subclasses `LabelledArrays` and defines `_made`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np

from attention_research.data import storage
from attention_research.data.in_memory import InMemory
from attention_research.data.protocol import Batch


def kept(maker: type, settings: Any, make: Callable[[], Batch]) -> Batch:
    """The result of `make`, stored in the data folder under a key of the settings and the maker's source file."""
    code = Path(inspect.getfile(maker)).read_text(encoding="utf-8")
    key = storage.content_hash([maker.__name__, settings], [code])
    path = storage.folder("arrays") / f"{key}.npz"
    with storage.locked(f"arrays-{key}"):
        if not path.exists():
            with storage.written(path) as temporary:
                arrays: dict[str, Any] = make()
                np.savez_compressed(temporary, **arrays)
    with np.load(path) as stored:
        return dict(stored)


class LabelledArrays(InMemory):
    """Base class of labelled sequences: `numbers` counts the examples of each split, `settings` determines them."""

    #: The names of the token arrays in a batch.
    sides: tuple[str, ...] = ("source",)
    fill = {"label": -1}
    evaluation_seed = 2011

    def __init__(
        self, name: str, max_length: int, numbers: dict[str, int], classes: tuple[str, ...], settings: dict[str, Any]
    ):
        self.name, self.max_length, self.numbers, self.classes = name, max_length, numbers, classes
        self.settings = settings
        super().__init__()
        self._report: Callable[[str], None] = lambda line: None

    def _made(self, split: str) -> Batch:
        """All arrays of a split: the sides [n max_length] and "label" [n], the same in every call."""
        raise NotImplementedError

    def _arrays(self, split: str) -> Batch:
        return {name: np.asarray(array, np.int32) for name, array in super()._arrays(split).items()}

    def prepare(self, progress: Callable[[str], None] | None = None) -> Self:
        """Makes the training split and reports the slow steps; later calls reuse it."""
        self._report = progress or self._report
        self.arrays("train")
        return self

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of the settings that determine the examples, and of the test split."""
        test = [array.tobytes().hex() for _, array in sorted(self.arrays("test").items())]
        return storage.content_hash([self.name, self.max_length, self.numbers, self.settings], test)

    def describe(self) -> str:
        """A one-line description for the user."""
        return f"{self.name} · {self.numbers['train']:,} examples of {self.max_length:,} tokens"

    def labels(self, split: str) -> np.ndarray:
        """The class numbers [n] of a split, indexed by example id."""
        return self.arrays(split)["label"]

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training; makes nothing."""
        return [{**{side: (batch_size, self.max_length) for side in self.sides}, "label": (batch_size,)}]
