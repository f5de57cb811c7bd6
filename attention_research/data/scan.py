"""SCAN, Lake & Baroni 2018 (arXiv 1711.00350): commands in a small language, and the actions that they stand for.

    jump opposite left after walk twice     I_WALK I_WALK I_TURN_LEFT I_TURN_LEFT I_JUMP

The grammar (section 2 and its supplement) has 20,910 commands. With u one of walk, look, run, jump and d one of left,
right, a verb phrase is "u", "u d", "turn d", "u opposite d", "turn opposite d", "u around d" or "turn around d". It may
be followed by twice or thrice. A command is one of these, or two with "and" or "after" between them. "u d" turns and
acts, "opposite" turns twice before, "around" turns and acts four times, and "x after y" does y first.

Each split has its own training and test commands:

    simple      `percent` of the commands, drawn at random, and the others (80 %: 16,728 and 4,182; 1 %: 209, 20,701).
                The published draw is a file; ours is another draw.
    length      commands of at most 22 actions, and those of 24 to 48 (16,990 and 3,920)
    jump        the commands without jump, and 1,467 times "jump" alone; the other commands with jump (14,670 and 7,706)
                With `composed`, some of these move to training, and 1,467 is divided equally among them and "jump".
    turn_left   the commands without "turn left", and 2,189 times "turn left" alone; the others (21,890 and 1,208)
    cutoff      nine tenths of the commands of at most `cutoff` actions; all longer ones (Csordas, Irie & Schmidhuber
                2021, arXiv 2108.12284; their draw is another one)

Validation examples are the last tenth of `cutoff`. The other splits have none in the paper: there, validation is 500
training commands, so that it shows whether the training commands are learned, and nothing else.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Literal

import numpy as np

from attention_research.data.generated_pairs import GeneratedPairs
from attention_research.data.pairs import Pairs
from attention_research.errors import ConfigError
from attention_research.signatures import Child, NonNegative, Positive

PRIMITIVES, DIRECTIONS = ("walk", "look", "run", "jump"), ("left", "right")
REPEATS = {"": 1, " twice": 2, " thrice": 3}
#: The split "length", and the numbers of copies of the command that is shown alone.
LONGEST, JUMPS, TURNS = 22, 1467, 2189
_SEED, _SEEN = 1711, 500

Pair = tuple[str, str]


def verb_phrases() -> dict[str, list[str]]:
    """Each of the 34 verb phrases and its actions.

    >>> verb_phrases()["look around left"]
    ['I_TURN_LEFT', 'I_LOOK', 'I_TURN_LEFT', 'I_LOOK', 'I_TURN_LEFT', 'I_LOOK', 'I_TURN_LEFT', 'I_LOOK']
    """
    found = {verb: [f"I_{verb.upper()}"] for verb in PRIMITIVES}
    for verb, direction in itertools.product((*PRIMITIVES, "turn"), DIRECTIONS):
        turn, act = [f"I_TURN_{direction.upper()}"], found.get(verb, [])
        found[f"{verb} {direction}"] = turn + act
        found[f"{verb} opposite {direction}"] = 2 * turn + act
        found[f"{verb} around {direction}"] = 4 * (turn + act)
    return found


@functools.cache
def commands() -> tuple[Pair, ...]:
    """Every command and its actions."""
    sentences = {f"{phrase}{how}": many * actions
                 for phrase, actions in verb_phrases().items() for how, many in REPEATS.items()}  # fmt: skip
    found = list(sentences.items())
    for (one, first), (other, second) in itertools.product(sentences.items(), repeat=2):
        found += [(f"{one} and {other}", first + second), (f"{one} after {other}", second + first)]
    return tuple((command, " ".join(actions)) for command, actions in found)


def _actions(pair: Pair) -> int:
    return pair[1].count(" ") + 1


def simple(percent: int) -> tuple[list[Pair], list[Pair]]:
    """(training, test): a random draw."""
    every = [commands()[place] for place in np.random.default_rng(_SEED).permutation(len(commands()))]
    count = len(every) * percent // 100
    return every[:count], every[count:]


def by_length(longest: int) -> tuple[list[Pair], list[Pair]]:
    """(commands with at most this many actions, the others)."""
    short = [pair for pair in commands() if _actions(pair) <= longest]
    return short, [pair for pair in commands() if _actions(pair) > longest]


def alone(phrase: str, copies: int, composed: int = 0) -> tuple[list[Pair], list[Pair]]:
    """(the commands without a phrase, and copies of the phrase alone; the other commands with the phrase).

    `composed` of the others, drawn at random, are copied into training too. Each gets an equal number of `copies`.
    """
    with_it = [pair for pair in commands() if f" {phrase} " in f" {pair[0]} "]
    without = [pair for pair in commands() if f" {phrase} " not in f" {pair[0]} "]
    (itself,) = (pair for pair in with_it if pair[0] == phrase)
    others = [pair for pair in with_it if pair != itself]
    places = set(np.random.default_rng(_SEED + 2).permutation(len(others))[:composed].tolist())
    shown = [itself, *(others[place] for place in sorted(places))]
    test = [pair for place, pair in enumerate(others) if place not in places]
    return without + copies // len(shown) * shown, test


@dataclasses.dataclass(frozen=True)
class Division:
    """The split of the commands: its name, and the settings of `ScanData` that belong to some of the splits."""

    split: str
    cutoff: int | None = None
    percent: int = 80
    composed: int = 0

    def halves(self) -> tuple[list[Pair], list[Pair]]:
        """(training, test)."""
        return {
            "simple": lambda: simple(self.percent),
            "length": lambda: by_length(LONGEST),
            "jump": lambda: alone("jump", JUMPS, self.composed),
            "turn_left": lambda: alone("turn left", TURNS),
            "cutoff": lambda: by_length(self.cutoff or LONGEST),
        }[self.split]()

    def parts(self) -> dict[str, list[Pair]]:
        """Split -> pairs. Training pairs are in a fixed random order."""
        train, test = self.halves()
        shuffled = [train[place] for place in np.random.default_rng(_SEED + 1).permutation(len(train))]
        if self.split != "cutoff":
            return {"train": shuffled, "validation": shuffled[:_SEEN], "test": test}
        count = len(shuffled) * 9 // 10 + 1  # as many as in the released splits
        return {"train": shuffled[:count], "validation": shuffled[count:], "test": test}


@dataclasses.dataclass(frozen=True)
class Chosen(GeneratedPairs):
    """A split of the commands."""

    division: Division
    train_examples: int | None

    def pairs(self, split: str) -> list[Pair]:
        """The pairs of a split, the same in every call."""
        pairs = self.division.parts()[split]
        return pairs[: self.train_examples] if split == "train" else pairs


class ScanData(Pairs):
    """Commands and actions of SCAN (see the module docstring).

    `cutoff` belongs to the split cutoff, `percent` to simple and `composed` to jump.
    """

    def __init__(
        self,
        *,
        split: Literal["simple", "length", "jump", "turn_left", "cutoff"] = "simple",
        cutoff: Positive | None = None,
        percent: Positive = 80,
        composed: NonNegative = 0,
        max_length: Positive,
        vocabulary_size: Positive,
        tokenizer: Child["tokenizer"] = "words",
        batching: Child["batching"] = "buckets",
        train_examples: Positive | None = None,
    ):
        if (split == "cutoff") != (cutoff is not None):
            raise ConfigError(f"data.cutoff: expected a number of actions for split='cutoff' alone, got {cutoff}")
        if percent > 99 or (percent != 80 and split != "simple"):
            raise ConfigError(f"data.percent: expected 1 to 99, and only for split='simple', got {percent}")
        if composed and (split != "jump" or composed >= JUMPS):
            raise ConfigError(f"data.composed: expected fewer than {JUMPS}, and only for split='jump', got {composed}")
        name = f"SCAN, {split}" if cutoff is None else f"SCAN, {cutoff} actions and more"
        super().__init__(name, max_length, tokenizer, batching, train_examples)
        self.vocabulary_size = vocabulary_size
        self._choice = Chosen(Division(split, cutoff, percent, composed), train_examples)
