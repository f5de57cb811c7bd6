"""Questions about collages. The cell with the answer is known, and so is the correct attention for each question.

    which digit is at row 2 column 3 ?      four        cell 6
    which digit is red ?                    seven       the cell of the one digit in red
    how many fours are there ?              two         no single cell: 0

Each picture (`collages`) has `questions` different questions. The form of a question is drawn uniformly from the forms
that the picture allows; the second form needs a colour that only one digit has. A place is drawn from the cells with a
digit. For a count, the number is drawn first, uniformly from the numbers that are correct for some digit (zero
included), and then a digit that occurs that many times. Otherwise most answers would be "one". The questions are a
function of the picture's split and number, the layout, and the number of questions.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

from attention_research.data import storage
from attention_research.data.collage_captions import KnownWords
from attention_research.data.collages import COLOURS, DIGITS, Layout, collages, in_colours
from attention_research.data.picture_texts import PictureTexts, digests, padded
from attention_research.data.protocol import Batch
from attention_research.errors import ConfigError
from attention_research.signatures import Positive, Rate

PLURALS = tuple(f"{digit}es" if digit == "six" else f"{digit}s" for digit in DIGITS)
#: The forms of questions; "form" in a batch numbers them from 1.
FORMS = ("place", "colour", "count")
#: Tokens of the longest form, "which digit is at row 2 column 3 ?", with the end of sentence.
LONGEST = 10
_SEEDS = {"train": 1505, "validation": 1506, "test": 1507}


class Question(NamedTuple):
    """`cell` counts by rows from 1, and is 0 if the answer is in no single cell; `form` numbers `FORMS` from 1."""

    words: tuple[str, ...]
    answer: int
    cell: int
    form: int


def question(chance: np.random.Generator, digits: np.ndarray, colours: np.ndarray, grid: int) -> Question:
    """A question about a picture, given the digit and colour of each cell [cells], -1 for no digit."""
    filled = np.flatnonzero(digits >= 0)
    single = [int(cell) for cell in filled if np.sum(colours == colours[cell]) == 1]
    form = chance.choice([name for name in FORMS if name != "colour" or single])
    if form == "count":
        counts = np.bincount(digits[filled], minlength=len(DIGITS))
        many = chance.choice(np.unique(counts))
        words = ("how", "many", PLURALS[chance.choice(np.flatnonzero(counts == many))], "are", "there", "?")
        return Question(words, int(many), 0, FORMS.index("count") + 1)
    cell = int(chance.choice(single if form == "colour" else filled))
    row, column = divmod(cell, grid)
    said = (
        (tuple(COLOURS)[colours[cell]],) if form == "colour" else ("at", "row", str(row + 1), "column", str(column + 1))
    )
    return Question(("which", "digit", "is", *said, "?"), int(digits[cell]), cell + 1, FORMS.index(form) + 1)


def questions(
    chance: np.random.Generator, digits: np.ndarray, colours: np.ndarray, grid: int, number: int
) -> list[Question]:
    """`number` different questions; an answer is always one of `DIGITS`."""
    found: dict[tuple[str, ...], Question] = {}
    while len(found) < number:
        one = question(chance, digits, colours, grid)
        if one.answer < len(DIGITS):
            found.setdefault(one.words, one)
    return list(found.values())


class CollageQuestions(PictureTexts):
    """Pictures of `side` x `side` pixels with `questions` questions each; `train_pictures` and `held_out` count
    pictures.

    A batch has "image" [B side side 3] uint8; "source" [B S], the tokens of the question with the end of sentence;
    "label" [B], the answer as a digit, -1 in filling rows; "cells" [B], the cell with the answer, 0 if it is in no
    single cell; and "form" [B], the number of the form in `FORMS`.
    """

    fill = {"label": -1}
    classes = DIGITS
    evaluation_seed = 1505

    def __init__(
        self,
        *,
        side: Positive,
        channels: Positive = 3,
        grid: Positive = 3,
        min_objects: Positive = 2,
        max_objects: Positive = 6,
        clutter: Rate = 0.5,
        questions: Positive = 3,
        max_length: Positive,
        vocabulary_size: Positive,
        train_pictures: Positive = 20_000,
        held_out: Positive = 1000,
    ):
        in_colours(channels)
        self.layout, self.questions = Layout(side, grid, min_objects, max_objects, clutter), questions
        if LONGEST > max_length:
            raise ConfigError(f"data.max_length: questions have up to {LONGEST} tokens, {max_length} are too few")
        if questions > len(DIGITS):
            raise ConfigError(f"data.questions: a picture always allows {len(DIGITS)} different ones, not {questions}")
        self.max_length, self.vocabulary_size = max_length, vocabulary_size
        said = "which digit is at row column how many are there ?".split()
        words = (*said, *COLOURS, *PLURALS, *(str(number + 1) for number in range(grid)))
        self.tokenizer = KnownWords(words, vocabulary_size=vocabulary_size)
        self.pictures = {"train": train_pictures, "validation": held_out, "test": held_out}
        self.numbers = {split: questions * number for split, number in self.pictures.items()}
        self.name = f"questions on collages of {min_objects} to {max_objects} digits in {grid} x {grid} cells"
        super().__init__()
        self.drawn = functools.cache(lambda split: collages(split, self.pictures[split], self.layout, self._report))
        self._asked = functools.cache(self._ask)

    def _ask(self, split: str) -> list[Question]:
        drawn, grid = self.drawn(split), self.layout.grid
        return [
            one
            for number, (digits, colours) in enumerate(zip(drawn["digit"], drawn["colour"], strict=True))
            for one in questions(np.random.default_rng([_SEEDS[split], number]), digits, colours, grid, self.questions)
        ]

    def _made(self, split: str) -> Batch:
        asked = self._asked(split)
        numbers = {"label": "answer", "cells": "cell", "form": "form"}
        return {
            "source": padded(self.tokenizer.encode([" ".join(one.words) for one in asked]), self.max_length),
            **{name: np.asarray([getattr(one, of) for one in asked], np.int32) for name, of in numbers.items()},
        }

    def pictures_of(self, split: str, texts: np.ndarray) -> np.ndarray:
        """[n] the number of the picture of each question."""
        return texts // self.questions

    def images(self, split: str, pictures: np.ndarray) -> np.ndarray:
        """The pictures with the given numbers, uint8 [n side side 3]."""
        return self.drawn(split)["image"][pictures]

    def labels(self, split: str) -> np.ndarray:
        """The answers [n] of a split as class numbers, indexed by example id."""
        return self.arrays(split)["label"]

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The questions of a split and their answers, indexed by example id."""
        asked = self._asked(split)
        return [" ".join(one.words) for one in asked], [DIGITS[one.answer] for one in asked]

    def learned(self) -> dict[str, list[str]]:
        """The answers and the words, in order."""
        return {"classes": list(self.classes), "words": list(self.tokenizer.words)}

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of the settings and of the pictures, questions and answers of the test split."""
        settings = [self.numbers, self.max_length, self.questions, dataclasses.asdict(self.layout)]
        return storage.content_hash(settings, digests(self.drawn("test")["image"], *self.arrays("test").values()))

    def describe(self) -> str:
        """A one-line description for the user."""
        side, pictures = self.layout.side, self.pictures["train"]
        return f"{self.name} · {pictures:,} of {side} x {side} pixels · {self.numbers['train']:,} questions"

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training; makes nothing."""
        side, one = self.layout.side, (batch_size,)
        return [
            {"image": (batch_size, side, side, 3), "source": (batch_size, self.max_length), "label": one, "cells": one,
             "form": one}
        ]  # fmt: skip
