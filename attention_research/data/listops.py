"""ListOps (Nangia & Bowman 2018, arXiv 1804.06028), generated as in the Long Range Arena (Tay et al. 2021).

    [MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 2 ] ]        5

An expression is an operator with 2 to `max_args` arguments and a closing bracket. The operators are MIN, MAX, MED (the
median, rounded down) and SM (the sum modulo 10). An argument is a digit or, with probability 1/4, an expression; at
most `max_depth` expressions are nested. Distinct expressions with more than `min_length` and fewer than `max_length`
tokens are kept. The class is the value, one of ten. The arena uses the bounds 500 and 2,000, and 96,000, 2,000 and
2,000 examples.

The tokens are those of the corrected released pipeline: redundant brackets are left out, and closing brackets are kept.
An expression begins with one token for an operator and its bracket. Id 0 is padding, 1 to 10 are the digits, then come
the four operators and the closing bracket.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable

import numpy as np

from attention_research.data.labelled_arrays import LabelledArrays, kept
from attention_research.data.protocol import Batch
from attention_research.errors import ConfigError
from attention_research.signatures import NonNegative, Positive

OPERATORS: dict[str, Callable[[list[int]], int]] = {
    "[MIN": min, "[MAX": max,
    "[MED": lambda values: int(statistics.median(values)), "[SM": lambda values: sum(values) % 10,
}  # fmt: skip
TOKENS = ("<pad>", *map(str, range(10)), *OPERATORS, "]")
IDS = {token: number for number, token in enumerate(TOKENS)}
EXPRESSION = 0.25
_SEED = 1804
#: The number of draws in a row without a new expression after which there are too few.
_DRAWS = 300_000


def expression(chance: random.Random, max_depth: int, max_args: int, room: int) -> tuple[list[str], int] | None:
    """(tokens, value) of a random expression, which may be a single digit; None if it has more than `room` tokens.

    Stopping as soon as an expression is too long does not change the distribution of the kept ones.
    """

    def draw(depth: int) -> int:
        if depth >= max_depth or chance.random() > EXPRESSION:
            value = chance.randrange(10)
            tokens.append(str(value))
            return value
        operator = chance.choice(tuple(OPERATORS))
        tokens.append(operator)
        values = []
        for _ in range(chance.randint(2, max_args)):
            if len(tokens) > room:
                raise _Full
            values.append(draw(depth + 1))
        tokens.append("]")
        return OPERATORS[operator](values)

    tokens: list[str] = []
    try:
        value = draw(1)
    except _Full:
        return None
    return (tokens, value) if len(tokens) <= room else None


class _Full(Exception):
    """The expression has more tokens than `room`."""


class ListOps(LabelledArrays):
    """Expressions of more than `min_length` and fewer than `max_length` tokens (see the module docstring).

    Raises `ConfigError` for bounds with too few expressions.
    """

    def __init__(
        self,
        *,
        max_length: Positive,
        min_length: NonNegative = 500,
        max_depth: Positive = 10,
        max_args: Positive = 10,
        train_examples: Positive = 96_000,
        held_out: Positive = 2000,
    ):
        self.bounds = {"min_length": min_length, "max_depth": max_depth, "max_args": max_args}
        _check(max_length, **self.bounds)
        numbers = {"train": train_examples, "validation": held_out, "test": held_out}
        super().__init__("listops", max_length, numbers, tuple(map(str, range(10))), self.bounds)
        self._all: list[tuple[tuple[str, ...], int]] = []

    def expressions(self, split: str) -> list[tuple[tuple[str, ...], int]]:
        """(tokens, value) of a split. The held-out splits are drawn first, so that `train_examples` does not change
        them."""
        shortest, wanted = self.bounds["min_length"], sum(self.numbers.values())
        if not self._all:
            self._report(f"generating {wanted:,} expressions")
            chance = random.Random(_SEED)
            seen: dict[tuple[str, ...], int] = {}
            vain = 0
            while len(seen) < wanted:
                drawn = expression(chance, self.bounds["max_depth"], self.bounds["max_args"], self.max_length - 1)
                if drawn is not None and len(drawn[0]) > shortest and tuple(drawn[0]) not in seen:
                    seen[tuple(drawn[0])], vain = drawn[1], 0
                    continue
                vain += 1
                if vain == _DRAWS:
                    raise ConfigError(
                        f"data.train_examples: {wanted:,} different expressions are needed, with those of the held-out "
                        f"splits, and {len(seen):,} were found with these bounds; lower data.train_examples and "
                        "data.held_out, or raise data.max_length"
                    )
            self._all = list(seen.items())
        first = {"test": 0, "validation": self.numbers["test"], "train": self.numbers["test"] * 2}[split]
        return self._all[first : first + self.numbers[split]]

    def _made(self, split: str) -> Batch:
        return kept(type(self), [split, self.numbers, self.max_length, self.bounds], lambda: self._drawn(split))

    def _drawn(self, split: str) -> Batch:
        found = self.expressions(split)
        source = np.zeros((len(found), self.max_length), np.int32)
        for row, (tokens, _) in enumerate(found):
            source[row, : len(tokens)] = [IDS[token] for token in tokens]
        return {"source": source, "label": np.asarray([value for _, value in found])}


def _check(max_length: int, *, min_length: int, max_depth: int, max_args: int) -> None:
    """Raises `ConfigError` for bounds without an expression, which would be drawn forever."""
    if max_args < 2:
        raise ConfigError(f"data.max_args: an operator has 2 arguments or more; got {max_args}")
    longest = 1
    for _ in range(max_depth - 1):
        longest = longest if longest > min_length else 2 + max_args * longest
    if longest <= min_length:
        raise ConfigError(
            f"data.min_length: an expression has at most {longest} tokens with max_depth={max_depth} and "
            f"max_args={max_args}; expected less than that, got {min_length}"
        )
    shortest = max(min_length + 1, 4) if min_length else 1  # a digit, or an operator with two digits and a bracket
    if max_length <= shortest:
        raise ConfigError(
            f"data.max_length: expressions have more than {min_length} and fewer than {max_length} tokens (min_length, "
            "max_length); there are none"
        )
