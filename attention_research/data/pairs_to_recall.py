"""What the two data sets of associative recall share: pairs first, then each key once more, at a drawn place."""

from __future__ import annotations

from typing import Any

import numpy as np

from attention_research.data.drawn import Drawn
from attention_research.errors import ConfigError


def query_places(generator: np.random.Generator, rows: int, *, length: int, pairs: int, power: float) -> np.ndarray:
    """The positions [rows pairs] of the queries, in the order of the pairs.

    The text after the pairs has places of two tokens. A row draws different places j = 1, 2, ... with probabilities in
    proportion to j^(power - 1), and each query stands first in its place.
    """
    space = length // 2 - pairs
    # The order of log p + Gumbel noise is that of draws without replacement.
    noisy = (power - 1) * np.log(np.arange(1, space + 1)) + generator.gumbel(size=(rows, space))
    return 2 * pairs + 2 * np.argsort(-noisy, axis=1)[:, :pairs]


class PairsToRecall(Drawn):
    """The base class: `settings` are those of the text, with its `length` and the number of `pairs`."""

    def __init__(self, name: str, train_examples: int, held_out: int, settings: dict[str, Any]):
        self.pairs, self.max_length, self.settings = settings["pairs"], settings["length"], settings
        if self.max_length % 2 or 4 * self.pairs > self.max_length:
            raise ConfigError(
                f"data.pairs: {self.pairs} pairs and as many queries need an even max_length of at least "
                f"{4 * self.pairs}; got {self.max_length}"
            )
        self.name = f"{name} of {self.pairs} pairs"
        self.numbers = {"train": train_examples, "validation": held_out, "test": held_out}
        super().__init__()

    @property
    def chance(self) -> float:
        """The share of right answers of a model that always answers with one of the values of the row."""
        return 1 / self.pairs
