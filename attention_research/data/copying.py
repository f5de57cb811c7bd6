"""Generated pairs whose answer is a known number of words back: recall by distance.

Delayed copying (after Hochreiter & Schmidhuber 1997, section 5.4): the source is symbols, fillers to ignore, and a
question mark; the target is the symbols.

    C A H - + - ~ ?         C A H

Agreement (after Linzen, Dupoux & Goldberg 2016): the source is a noun, then phrases with singular or plural nouns. The
target is a verb that agrees with the first noun, across all phrases, or with the last noun, which is adjacent.

    the dog near cats by farmers        sleeps (with the first)     sleep (with the last)

The number of words in between is uniform from 0 to `max_delay` in every split. For agreement it is even, and if
`max_delay` is even too, the largest number is half as frequent as each of the others.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Literal

from attention_research.data.generated_pairs import GeneratedPairs
from attention_research.data.pairs import Pairs
from attention_research.signatures import Child, Positive

FILLERS, CUE = ("-", "+", "~", "="), "?"
NOUNS = ("dog", "cat", "farmer", "king", "river")
PREPOSITIONS = ("near", "by", "with")
VERBS = {False: "sleeps", True: "sleep"}  # whether the noun is plural
EVALUATED = 1024
_SEEDS = {"train": 1997, "validation": 1998, "test": 1999}

Pair = tuple[str, str]


def copied(chance: random.Random, delay: int, *, symbols: int, length: int) -> Pair:
    """(source, target): `length` of `symbols` letters, `delay` fillers and the cue; then the letters."""
    kept = " ".join(chr(ord("A") + chance.randrange(symbols)) for _ in range(length))
    return " ".join([kept, *(chance.choice(FILLERS) for _ in range(delay)), CUE]), kept


def agreeing(chance: random.Random, delay: int, *, subject: str) -> Pair:
    """(source, target): a noun and `delay // 2` phrases; then the verb for the first or the last noun."""
    plural = [chance.random() < 0.5 for _ in range(1 + delay // 2)]
    nouns = [chance.choice(NOUNS) + "s" * many for many in plural]
    phrases = [f"{chance.choice(PREPOSITIONS)} {noun}" for noun in nouns[1:]]
    return " ".join(["the", nouns[0], *phrases]), VERBS[plural[0 if subject == "first" else -1]]


@dataclasses.dataclass(frozen=True)
class Generated(GeneratedPairs):
    """A generated task: `task` with its settings (pairs of name and value), and the number of training examples."""

    task: str
    settings: tuple[tuple[str, int | str], ...]
    max_delay: int
    train_examples: int

    def pairs(self, split: str) -> list[Pair]:
        """The pairs of a split, the same in every call. The delays from 0 to `max_delay` take turns; agreement rounds
        them down to even numbers."""
        makers: dict[str, Callable[..., Pair]] = {"copy": copied, "agree": agreeing}
        chance, make = random.Random(_SEEDS[split]), makers[self.task]
        count = self.train_examples if split == "train" else EVALUATED
        delays = (number % (self.max_delay + 1) for number in range(count))
        return [make(chance, delay, **dict(self.settings)) for delay in delays]


class CopyingData(Pairs):
    """Delayed copying: `length` of `symbols` letters after 0 to `max_delay` fillers (see the module docstring)."""

    def __init__(
        self,
        *,
        max_delay: Positive = 30,
        symbols: Positive = 8,
        length: Positive = 3,
        max_length: Positive,
        vocabulary_size: Positive,
        tokenizer: Child["tokenizer"] = "words",
        batching: Child["batching"] = "buckets",
        train_examples: Positive = 20_000,
    ):
        super().__init__(f"copying over 0 to {max_delay} words", max_length, tokenizer, batching, train_examples)
        self.vocabulary_size = vocabulary_size
        settings = (("symbols", symbols), ("length", length))
        self._choice = Generated("copy", settings, max_delay, train_examples)

    def delay(self, source: str) -> int:
        """The number of fillers between the symbols and the end of a source."""
        return sum(word in FILLERS for word in source.split())


class AgreementData(Pairs):
    """Agreement of a verb with the first or the last noun, over 0 to `max_delay` words (see the module docstring).

    `subject` is the noun with which the verb agrees: the first or the last.
    """

    def __init__(
        self,
        *,
        max_delay: Positive = 30,
        subject: Literal["first", "last"] = "first",
        max_length: Positive,
        vocabulary_size: Positive,
        tokenizer: Child["tokenizer"] = "words",
        batching: Child["batching"] = "buckets",
        train_examples: Positive = 20_000,
    ):
        name = f"agreement with the {subject} noun over 0 to {max_delay} words"
        super().__init__(name, max_length, tokenizer, batching, train_examples)
        self.vocabulary_size = vocabulary_size
        self._choice = Generated("agree", (("subject", subject),), max_delay, train_examples)

    def delay(self, source: str) -> int:
        """The number of words between the first noun and the end of a source."""
        return len(source.split()) - 2
