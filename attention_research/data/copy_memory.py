"""The copy memory task, Hochreiter & Schmidhuber 1997, in the form of Bai, Kolter & Koltun 2018 (arXiv 1803.01271).

    series  5 2 7 | 0 0 0 0 | 9 9 9 9           with 3 symbols and a delay T of 5
    target  0 0 0   0 0 0 0   0 5 2 7

A series begins with 10 symbols, drawn uniformly from 1 to 8. T - 1 zeros and eleven 9s follow. The target is 0 at the
first T + 10 positions, and the 10 symbols in their order at the last 10: the first 9 announces them. A series has
T + 20 positions. It has one channel, which holds the symbols as numbers.

The best answer without a memory is 0, and then the uniform distribution over the 8 symbols. The mean of its
cross-entropy over all positions is 10 ln 8 / (T + 20): 0.0204 for T = 1,000.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from attention_research.data.protocol import Batch
from attention_research.data.series import Series
from attention_research.errors import ConfigError
from attention_research.signatures import Positive

#: Symbols are 1 to SYMBOLS; BLANK is the class of all other positions; RECALL asks for the symbols.
SYMBOLS, BLANK, RECALL = 8, 0, 9


class CopyMemory(Series):
    """Series of `max_length` positions; batches have "series" [B T 1] and "target" [B T] (see the module docstring).

    `length` is the number of symbols, so that the delay T is max_length - 2 length. `train_examples` and `held_out` are
    the numbers of series. The target of rows that only fill a batch is -1.
    """

    fill: ClassVar[dict[str, float]] = {"target": -1}
    #: The class of the positions that ask for nothing.
    blank = BLANK

    def __init__(
        self,
        *,
        max_length: Positive,
        length: Positive = 10,
        train_examples: Positive = 10_000,
        held_out: Positive = 1000,
    ):
        if max_length <= 2 * length:
            raise ConfigError(
                f"data.max_length: {length} symbols are read and written, so more than {2 * length}; got {max_length}"
            )
        self.length = length
        numbers = {"train": train_examples, "validation": held_out, "test": held_out}
        super().__init__("copy memory", max_length, numbers, {"length": length})

    @property
    def memoryless(self) -> float:
        """The mean loss of the best answer without a memory."""
        return self.length * math.log(SYMBOLS) / self.max_length

    def drawn(self, generator: np.random.Generator, rows: int) -> Batch:
        """{"series" [rows T 1], "target" [rows T]}."""
        symbols = generator.integers(1, SYMBOLS + 1, (rows, self.length))
        series = np.zeros((rows, self.max_length, 1), np.float32)
        series[:, : self.length, 0], series[:, -self.length - 1 :, 0] = symbols, RECALL
        target = np.full((rows, self.max_length), BLANK, np.int32)
        target[:, -self.length :] = symbols
        return {"series": series, "target": target}

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training; draws nothing."""
        return [{"series": (batch_size, self.max_length, 1), "target": (batch_size, self.max_length)}]
