"""Series of numbers that code draws once, by a seed; batches are a pure function of (seed, step).

A batch has "series" [B T C] float32, and the targets of its task (`tasks.regression`, `tasks.position_classes`).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from attention_research.data.drawn import Drawn
from attention_research.data.protocol import Batch

_SEEDS = {"train": 1803, "validation": 1804, "test": 1805}


class Series(Drawn):
    """The base class of drawn series. A subclass defines `drawn`, `train_shapes` and the arrays of its targets.

    `settings` are those of `drawn`; together with the numbers of examples they determine the data.
    """

    dtypes: ClassVar[dict[str, str]] = {"series": "float32"}
    evaluation_seed = 1806

    def __init__(self, name: str, max_length: int, numbers: dict[str, int], settings: dict[str, Any]):
        self.name, self.max_length, self.numbers, self.settings = name, max_length, numbers, settings
        super().__init__()

    def drawn(self, generator: np.random.Generator, rows: int) -> Batch:
        """All arrays of `rows` examples."""
        raise NotImplementedError

    def _made(self, split: str) -> Batch:
        return self.drawn(np.random.default_rng(_SEEDS[split]), self.numbers[split])

    def describe(self) -> str:
        """A one-line description for the user."""
        return f"{self.name} · {self.numbers['train']:,} series of {self.max_length:,} positions"
