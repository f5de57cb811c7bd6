"""Multi-query associative recall with labels at the queries, as in the released code of Arora et al. 2023 (2312.04927).

    inputs  2 8 4 7 0 0 4 0 0 0 0 0 2 0          2 pairs: 2 -> 8, 4 -> 7
    labels              7           8

A row begins with `pairs` pairs of a key and its value. Keys are different words of 1 to V/2 - 1, values different words
of V/2 to V - 1. Each key occurs once more, as a query, and the label at its position is the value. A query takes place
i, counted from 0 behind the pairs, at position 2 pairs + 2 i, with probability proportional to (i + 1)^(power - 1), and
each place holds one query at most. The first key draws its place first. All other positions hold word 0.

`data.recall` writes the value behind the query, so that an answer is also the next input. Here the model reads the row
as it is and answers at the query. The examples are drawn from the distribution of the released generator, with other
random numbers.
"""

from __future__ import annotations

import math

import numpy as np

from attention_research.data.pairs_to_recall import PairsToRecall, query_places
from attention_research.data.protocol import Batch
from attention_research.errors import ConfigError
from attention_research.signatures import Positive, PositiveFloat

#: The least probability with which a row of draws has different words.
_RARE = 1e-3
_SEEDS = {"train": 231204, "validation": 231205, "test": 231206}


def drawn(
    generator: np.random.Generator, rows: int, *, length: int, pairs: int, vocabulary_size: int, power: float
) -> Batch:
    """{"source" [rows length]: the inputs, "places" [rows pairs]: the positions of the queries in the order of the
    pairs, "target" [rows pairs]: their values, "answers" [rows pairs]: 1 for each}.

    >>> row = drawn(np.random.default_rng(5), 1, length=14, pairs=2, vocabulary_size=12, power=0.01)
    >>> row["source"].tolist(), row["places"].tolist(), row["target"].tolist()
    ([[4, 6, 5, 10, 0, 0, 5, 0, 4, 0, 0, 0, 0, 0]], [[8, 6]], [[6, 10]])
    """
    half = vocabulary_size // 2
    keys = distinct(generator, rows, pairs, 1, half)
    values = distinct(generator, rows, pairs, half, vocabulary_size)
    places = query_places(generator, rows, length=length, pairs=pairs, power=power)
    source = np.zeros((rows, length), np.int32)
    source[:, 0 : 2 * pairs : 2], source[:, 1 : 2 * pairs : 2] = keys, values
    np.put_along_axis(source, places, keys.astype(np.int32), axis=1)
    arrays = {"places": places, "target": values, "answers": np.ones_like(values)}
    return {"source": source, **{name: array.astype(np.int32) for name, array in arrays.items()}}


def distinct(generator: np.random.Generator, rows: int, count: int, low: int, high: int) -> np.ndarray:
    """[rows count] words from low to high - 1, uniform among all rows of different words: other rows are drawn anew.

    If almost all rows would be drawn anew, each row is drawn without replacement instead, which is slower.
    """
    if math.prod(1 - taken / (high - low) for taken in range(count)) < _RARE:
        return np.stack([low + generator.choice(high - low, count, replace=False) for _ in range(rows)])
    words = generator.integers(low, high, (rows, count))
    while True:
        ordered = np.sort(words, axis=1)
        again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if not len(again):
            return words
        words[again] = generator.integers(low, high, (len(again), count))


class AssociativeRecall(PairsToRecall):
    """Rows of `max_length` words with `pairs` pairs; batches have "source" [B T], and "places", "target" and "answers"
    [B pairs] (see the module docstring).

    `power` is the exponent of the distribution of the queries' places. `train_examples` and `held_out` are the numbers
    of rows.
    """

    evaluation_seed = 231207

    def __init__(
        self,
        *,
        max_length: Positive,
        vocabulary_size: Positive,
        pairs: Positive,
        power: PositiveFloat = 0.01,
        train_examples: Positive = 100_000,
        held_out: Positive = 3000,
    ):
        settings = {
            "length": max_length,
            "pairs": pairs,
            "vocabulary_size": vocabulary_size,
            "power": power,
        }
        super().__init__("associative recall", train_examples, held_out, settings)
        if vocabulary_size // 2 - 1 < pairs:
            raise ConfigError(
                f"data.pairs: keys are words below vocabulary_size / 2; {pairs} of them need at least {2 * pairs + 2} "
                f"words; got {vocabulary_size}"
            )

    def _made(self, split: str) -> Batch:
        return drawn(np.random.default_rng(_SEEDS[split]), self.numbers[split], **self.settings)

    def describe(self) -> str:
        """A one-line description for the user."""
        return f"{self.name} · {self.numbers['train']:,} rows of {self.max_length:,} words"

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training; makes nothing."""
        answers = dict.fromkeys(("places", "target", "answers"), (batch_size, self.pairs))
        return [{"source": (batch_size, self.max_length), **answers}]
