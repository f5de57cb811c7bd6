"""The adding problem, Hochreiter & Schmidhuber 1997, in the form of Bai, Kolter & Koltun 2018 (arXiv 1803.01271).

    0.31 0.97 0.02 0.55 0.40 0.78
      0    1    0    0    1    0       target 0.97 + 0.40 = 1.37

The first channel of a series holds numbers drawn uniformly from [0, 1). The second is 1 at two positions, two distinct
ones drawn uniformly, and 0 elsewhere. The target is the sum of the two marked numbers. The sum has the mean 1 and the
variance 1/6, so that 1/6 = 0.1667 is the least mean squared error of a constant answer.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from attention_research.data.protocol import Batch
from attention_research.data.series import Series
from attention_research.errors import ConfigError
from attention_research.signatures import Positive


class Adding(Series):
    """Series of `max_length` positions; batches have "series" [B T 2] and "value" [B] (see the module docstring).

    `train_examples` and `held_out` are the numbers of series. The value of a row that only fills a batch is NaN.
    """

    dtypes: ClassVar[dict[str, str]] = {"series": "float32", "value": "float32"}
    fill: ClassVar[dict[str, float]] = {"value": math.nan}

    def __init__(self, *, max_length: Positive, train_examples: Positive = 50_000, held_out: Positive = 1000):
        if max_length < 2:
            raise ConfigError(f"data.max_length: two positions are marked, so at least 2; got {max_length}")
        numbers = {"train": train_examples, "validation": held_out, "test": held_out}
        super().__init__("adding problem", max_length, numbers, {})

    def drawn(self, generator: np.random.Generator, rows: int) -> Batch:
        """{"series" [rows T 2], "value" [rows]}."""
        series = np.zeros((rows, self.max_length, 2), np.float32)
        series[:, :, 0] = generator.random((rows, self.max_length), np.float32)
        first = generator.integers(self.max_length, size=rows)
        second = (first + generator.integers(1, self.max_length, size=rows)) % self.max_length
        every = np.arange(rows)
        series[every, first, 1] = series[every, second, 1] = 1
        return {"series": series, "value": series[every, first, 0] + series[every, second, 0]}

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training; draws nothing."""
        return [{"series": (batch_size, self.max_length, 2), "value": (batch_size,)}]
