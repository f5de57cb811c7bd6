"""Equations a o b = c over a finite set, all of them, in random order (Power et al. 2022, arXiv 2201.02177).

    a o b = c        five tokens; c is the answer

A fraction of the equations is for training; the rest is the validation split. There is no test split. Elements are
single tokens, so that a model knows nothing about them but what the equations say. `operation` is one of

    addition        a + b mod 97
    division        a / b mod 97, b not 0
    polynomial      a^3 + a b^2 + b mod 97
    s5              the product of two permutations of five elements: (a o b)(i) = a(b(i))

The tokens are the elements, in order, then the operation and the equals sign.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal

import numpy as np
from jaxtyping import Int

from attention_research.data.drawn import Drawn
from attention_research.data.protocol import Batch
from attention_research.errors import ConfigError
from attention_research.signatures import Positive, Rate, Seed
from attention_research.tokens import UNKNOWN

#: The first element; smaller ids are special tokens.
FIRST = UNKNOWN + 1
#: The modulus, and the number of elements that permutations permute.
MODULUS, PERMUTED = 97, 5
#: Operation -> the number of elements.
ELEMENTS = {"addition": MODULUS, "division": MODULUS, "polynomial": MODULUS, "s5": math.factorial(PERMUTED)}


def equations(operation: str) -> Int[np.ndarray, "N 3"]:
    """All (a, b, c) with a o b = c, as numbers of elements.

    >>> len(equations("division")), len(equations("s5"))
    (9312, 14400)
    """
    a, b = (x.ravel() for x in np.indices((ELEMENTS[operation],) * 2))
    if operation == "s5":
        every = np.array(list(itertools.permutations(range(PERMUTED))))
        places = PERMUTED ** np.arange(PERMUTED)
        number = {code: place for place, code in enumerate((every @ places).tolist())}
        product = np.take_along_axis(every[a], every[b], axis=1)
        return np.stack([a, b, [number[code] for code in (product @ places).tolist()]], axis=1)
    if operation == "division":  # b c = a: from each quotient and divisor the dividend
        quotient, divisor = a[b > 0], b[b > 0]
        return np.stack([quotient * divisor % MODULUS, divisor, quotient], axis=1)
    return np.stack([a, b, (a + b if operation == "addition" else a**3 + a * b**2 + b) % MODULUS], axis=1)


class Equations(Drawn):
    """Batches have "target" [B 5] and "answers" [B 5], 1 at c (see the module docstring).

    `operation` is addition, division, polynomial or s5. `train_fraction` of the equations, rounded, are for training.
    `split_seed` draws their order.
    """

    evaluation_seed = 2201
    classes = ()

    def __init__(
        self,
        *,
        operation: Literal["addition", "division", "polynomial", "s5"],
        train_fraction: Rate,
        max_length: Positive,
        vocabulary_size: Positive,
        split_seed: Seed = 0,
    ):
        tokens = FIRST + ELEMENTS[operation] + 2
        if vocabulary_size < tokens:
            raise ConfigError(f"data.operation: {operation} needs a vocabulary_size of at least {tokens}, got "
                              f"{vocabulary_size}")  # fmt: skip
        if max_length != 5:
            raise ConfigError(f"data.max_length: expected 5, the tokens of an equation, got {max_length}")
        number = ELEMENTS[operation] ** 2 - (MODULUS if operation == "division" else 0)
        train = round(train_fraction * number)
        if not 0 < train < number:
            raise ConfigError(f"data.train_fraction: {train_fraction} leaves no equation for training or validation")
        self.name, self.max_length, self.operation = f"equations, {operation}", max_length, operation
        self.numbers = {"train": train, "validation": number - train}
        self.settings: dict[str, Any] = {"operation": operation, "split_seed": split_seed}
        super().__init__()

    @property
    def chance(self) -> float:
        """The share of right answers of a model that always answers with the most frequent element."""
        answers = equations(self.operation)[:, 2]
        return float(np.bincount(answers).max() / len(answers))

    def _made(self, split: str) -> Batch:
        every = equations(self.operation)
        order = np.random.default_rng(self.settings["split_seed"]).permutation(len(every))
        first = self.numbers["train"]
        a, b, c = FIRST + every[order[:first] if split == "train" else order[first:]].T
        operation, equals = (np.full_like(a, FIRST + ELEMENTS[self.operation] + more) for more in (0, 1))
        target = np.stack([a, operation, b, equals, c], axis=1).astype(np.int32)
        answers = np.zeros_like(target)
        answers[:, -1] = 1
        return {"target": target, "answers": answers}

    def describe(self) -> str:
        """A one-line description for the user."""
        return f"{self.name} · {self.numbers['train']:,} of {sum(self.numbers.values()):,} equations for training"

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training; makes nothing."""
        return [dict.fromkeys(("target", "answers"), (batch_size, self.max_length))]
