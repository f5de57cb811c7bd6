"""Generated tasks whose test examples are longer than those of training, Ontanon et al. 2021 (arXiv 2108.04378).

Addition: two numbers of 1 to 8 random digits, with leading zeros up to 12 places, and their sum. The numbers of the
test split have 9 or 10 digits.

    0 0 0 0 0 0 0 0 0 4 7 1 + 0 0 0 0 0 0 0 0 0 0 9 5        0 0 0 0 0 0 0 0 0 5 6 6

Reversing: 1 to 16 random digits, and the same from the last to the first. Those of the test split are 17 to 24.

    3 1 4 1 5        5 1 4 1 3

Validation examples are as long as those of training, so that they show whether the task itself was learned.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

import numpy as np

from attention_research.data.generated_pairs import GeneratedPairs
from attention_research.data.pairs import Pairs
from attention_research.signatures import Child, Positive

#: The places of each number, and the shortest and longest number of digits: (training and validation), (test).
PLACES = 12
ADDED = (1, 8), (9, 10)
REVERSED = (1, 16), (17, 24)
_SEEDS = {"train": 2108, "validation": 2109, "test": 2110}

Pair = tuple[str, str]


def added(random: np.random.Generator, count: int, *, longer: bool) -> list[Pair]:
    """(source, target): two numbers, each with its own number of digits, and their sum.

    >>> added(np.random.default_rng(0), 1, longer=True)
    [('0 0 2 6 9 7 8 6 7 1 3 7 + 0 0 0 4 0 9 7 3 5 2 3 9', '0 0 3 1 0 7 6 0 2 3 7 6')]
    """
    shortest, longest = ADDED[longer]
    digits = random.integers(shortest, longest + 1, (count, 2))
    numbers = random.integers(0, 10**digits)
    written = lambda number: " ".join(f"{number:0{PLACES}d}")
    return [(f"{written(one)} + {written(other)}", written(one + other)) for one, other in numbers.tolist()]


def reversed_digits(random: np.random.Generator, count: int, *, longer: bool) -> list[Pair]:
    """(source, target): digits, and the digits in the opposite order."""
    shortest, longest = REVERSED[longer]
    pairs = []
    for length in random.integers(shortest, longest + 1, count):
        digits = list(map(str, random.integers(0, 10, length)))
        pairs.append((" ".join(digits), " ".join(reversed(digits))))
    return pairs


TASKS: dict[str, Callable[..., list[Pair]]] = {"addition": added, "reversing": reversed_digits}


@dataclasses.dataclass(frozen=True)
class Generated(GeneratedPairs):
    """A generated task with its numbers of examples."""

    task: str
    train_examples: int
    held_out: int

    def pairs(self, split: str) -> list[Pair]:
        """The pairs of a split, the same in every call."""
        count = self.train_examples if split == "train" else self.held_out
        return TASKS[self.task](np.random.default_rng(_SEEDS[split]), count, longer=split == "test")


class LongerData(Pairs):
    """Addition or reversing, with a test split of longer examples (see the module docstring).

    `task` is addition or reversing. `train_examples` and `held_out` are the numbers of pairs, the latter of validation
    and of test.
    """

    def __init__(
        self,
        *,
        task: Literal["addition", "reversing"],
        max_length: Positive,
        vocabulary_size: Positive,
        tokenizer: Child["tokenizer"] = "words",
        batching: Child["batching"] = "buckets",
        train_examples: Positive = 200_000,
        held_out: Positive = 1024,
    ):
        super().__init__(f"{task}, longer in the test split", max_length, tokenizer, batching, train_examples)
        self.vocabulary_size = vocabulary_size
        self._choice = Generated(task, train_examples, held_out)
