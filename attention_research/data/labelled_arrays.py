"""Sequences of tokens with a class each, all in memory: batches that are a pure function of (seed, step).

A batch is {"source" [B S], "label" [B]} and whatever else a set has, all int32: tokens (0 is padding), and the class,
-1 in rows that only fill a batch. Every batch is `max_length` wide. What the sets of the Long Range Arena share; a set
subclasses `LabelledArrays` and gives `_made`.
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
    """What `make` gives, made once for these settings and the maker's source file, then read from the data folder."""
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
    """`numbers` are the examples of each split; `name` says what they are, `settings` what they depend on."""

    #: The arrays of tokens in a batch.
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
        """All of a split: the sides [n max_length] and "label" [n], the same ones every time."""
        raise NotImplementedError

    def _arrays(self, split: str) -> Batch:
        return {name: np.asarray(array, np.int32) for name, array in super()._arrays(split).items()}

    def prepare(self, progress: Callable[[str], None] | None = None) -> Self:
        """Make the training split, so that what takes time is reported; later it is there."""
        self._report = progress or self._report
        self.arrays("train")
        return self

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of what the examples are a function of, and of the test split itself."""
        test = [array.tobytes().hex() for _, array in sorted(self.arrays("test").items())]
        return storage.content_hash([self.name, self.max_length, self.numbers, self.settings], test)

    def describe(self) -> str:
        """One line for the user."""
        return f"{self.name} · {self.numbers['train']:,} examples of {self.max_length:,} tokens"

    def labels(self, split: str) -> np.ndarray:
        """The classes [n] of a split. Example ids index them."""
        return self.arrays(split)["label"]

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Name -> shape of every batch that training can see; nothing is made."""
        return [{**{side: (batch_size, self.max_length) for side in self.sides}, "label": (batch_size,)}]
