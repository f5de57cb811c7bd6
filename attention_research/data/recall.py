"""Multi-query associative recall, generated (Arora et al. 2023, arXiv 2312.04927, section 4 and appendix E).

    A 4  B 3  C 6  F 1  E 2    x x  C 6  x x  F 1  A 4  x x  E 2  B 3        with 5 pairs; x is a filler

A row begins with `pairs` pairs of a key and its value. Each key then occurs once more, as a query, followed by its
value, which is the answer. The keys of a row are different words of one half of the vocabulary. Its values are words of
the other half. The rest of the row has room for a number of queries; a query takes place i, counted from 0, with
probability proportional to (i + 1)^(power - 1), and each place holds one query at most. With `power` near 0, as in the
paper, most queries come soon after the pairs, and a few come late; `power` 1 makes all places equally frequent. Fillers
are random words of both halves, or one word that has no other use.

The sequence is a text for a language model, so that the answer is also the next input. In the released code, the next
input is a filler, and the values of a row differ from each other. Here the values are drawn independently, so that the
answers already given do not exclude any.
"""

from __future__ import annotations

import numpy as np

from attention_research.data.pairs_to_recall import PairsToRecall, query_places
from attention_research.data.protocol import Batch
from attention_research.errors import ConfigError
from attention_research.signatures import Positive, PositiveFloat
from attention_research.tokens import UNKNOWN

#: The first word; smaller ids are special tokens. The filler that has no other use is `UNKNOWN`.
FIRST = UNKNOWN + 1
_SEEDS = {"train": 2312, "validation": 2313, "test": 2314}


def recalled(
    generator: np.random.Generator,
    rows: int,
    *,
    length: int,
    pairs: int,
    vocabulary_size: int,
    power: float,
    random_fillers: bool,
) -> Batch:
    """{"target" [rows length]: the texts, "answers" [rows length]: 1 at each answer, 0 elsewhere}.

    >>> text = recalled(np.random.default_rng(1), 1, length=12, pairs=2, vocabulary_size=12, power=0.1,
    ...                 random_fillers=False)
    >>> text["target"].tolist(), text["answers"].tolist()  # 5 -> 11 and 6 -> 8
    ([[5, 11, 6, 8, 3, 3, 5, 11, 6, 8, 3, 3]], [[0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0]])
    """
    first_value = FIRST + (vocabulary_size - FIRST) // 2
    keys = np.stack([generator.choice(np.arange(FIRST, first_value), pairs, replace=False) for _ in range(rows)])
    values = generator.integers(first_value, vocabulary_size, (rows, pairs))
    query = query_places(generator, rows, length=length, pairs=pairs, power=power)

    target = np.full((rows, length), UNKNOWN)
    if random_fillers:
        target = generator.integers(FIRST, vocabulary_size, (rows, length))
    target[:, 0 : 2 * pairs : 2], target[:, 1 : 2 * pairs : 2] = keys, values
    np.put_along_axis(target, query, keys, axis=1)
    np.put_along_axis(target, query + 1, values, axis=1)
    answers = np.zeros((rows, length), np.int32)
    np.put_along_axis(answers, query + 1, 1, axis=1)
    return {"target": target.astype(np.int32), "answers": answers}


class Recall(PairsToRecall):
    """Rows of `max_length` tokens with `pairs` pairs; batches have "target" and "answers" [B T] (see the module
    docstring).

    `power` is the exponent of the distribution of the queries' places, and `random_fillers` chooses random words as
    fillers. `train_examples` and `held_out` are the numbers of rows.
    """

    evaluation_seed = 2315

    def __init__(
        self,
        *,
        max_length: Positive,
        vocabulary_size: Positive,
        pairs: Positive,
        power: PositiveFloat = 0.01,
        random_fillers: bool = True,
        train_examples: Positive = 100_000,
        held_out: Positive = 3000,
    ):
        settings = {
            "length": max_length,
            "pairs": pairs,
            "vocabulary_size": vocabulary_size,
            "power": power,
            "random_fillers": random_fillers,
        }
        super().__init__("recall", train_examples, held_out, settings)
        if (vocabulary_size - FIRST) // 2 < pairs:
            raise ConfigError(
                f"data.pairs: {pairs} keys are half of the words; they need a vocabulary_size of at least "
                f"{FIRST + 2 * pairs}; got {vocabulary_size}"
            )

    def _made(self, split: str) -> Batch:
        return recalled(np.random.default_rng(_SEEDS[split]), self.numbers[split], **self.settings)

    def describe(self) -> str:
        """A one-line description for the user."""
        return f"{self.name} · {self.numbers['train']:,} rows of {self.max_length:,} tokens"

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training; makes nothing."""
        return [dict.fromkeys(("target", "answers"), (batch_size, self.max_length))]
