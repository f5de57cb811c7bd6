"""Collages with captions. The cell of every word is known, and so is the correct attention for every word.

    a large red seven , a small blue two and a large green four        cells 0 3 3 3 0 0 5 5 5 0 0 9 9 9

A caption names the objects of a picture (`collages`) in reading order, each by its size, colour and digit. n objects
take 5 n - 1 words, so 60 objects take 299. The words of an object have the number of its cell, counted by rows from 1;
the words between objects have 0. The picture determines the caption and the cells: each picture has one correct
caption.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from attention_research.data import storage
from attention_research.data.collages import COLOURS, DIGITS, SIZES, Layout, collages, in_colours
from attention_research.data.picture_texts import PictureTexts, digests, padded
from attention_research.data.protocol import Batch
from attention_research.data.tokens import TokenArray
from attention_research.data.words import Words
from attention_research.errors import ConfigError
from attention_research.signatures import Positive, Rate

WORDS = ("a", ",", "and", *SIZES, *COLOURS, *DIGITS)


def caption(digits: np.ndarray, colours: np.ndarray, sizes: np.ndarray) -> tuple[list[str], list[int]]:
    """(words, the cell of each word) of a picture, given the numbers of each cell's object [cells], -1 for no object.

    >>> words, cells = caption(np.array([-1, 7, 2]), np.array([-1, 0, 2]), np.array([-1, 1, 0]))
    >>> print(*words); print(*cells)
    a large red seven and a small blue two
    0 2 2 2 0 0 3 3 3
    """
    words: list[str] = []
    cells: list[int] = []
    filled = np.flatnonzero(digits >= 0)
    for number, cell in enumerate(filled):
        before = ("a",) if number == 0 else ("and", "a") if number == len(filled) - 1 else (",", "a")
        words += [*before, SIZES[sizes[cell]], tuple(COLOURS)[colours[cell]], DIGITS[digits[cell]]]
        cells += [*(0 for _ in before), *(int(cell) + 1,) * 3]
    return words, cells


class KnownWords(Words):
    """A vocabulary of given words, with the interface of `words.Words` without `fit`."""

    def __init__(self, words: Sequence[str], *, vocabulary_size: int):
        super().__init__(vocabulary_size=vocabulary_size)
        self._words = tuple(words)
        special = self.size - len(self._words)
        self._ids = {word: number + special for number, word in enumerate(self._words)}
        self._fingerprint = storage.content_hash("known words", self._words)
        if self.size > vocabulary_size:
            raise ConfigError(
                f"vocabulary_size: {vocabulary_size} leaves no room for {len(self._words)} words and {special} others"
            )


class Collages(PictureTexts):
    """Pictures of `side` x `side` pixels and their captions, of at most `max_length` tokens with the end of sentence.

    A batch has "image" [B side side 3] uint8, "target" [B T], "cells" [B T], 0 also at the end of sentence, and
    "objects" [B], the number of objects in the picture. Each example is a picture with its one caption; an id is the
    number of both.
    """

    evaluation_seed = 1502
    #: The largest number of generated tokens; None: the limit of the model.
    target_length = None

    def __init__(
        self,
        *,
        side: Positive,
        channels: Positive = 3,
        grid: Positive = 3,
        min_objects: Positive = 1,
        max_objects: Positive = 5,
        clutter: Rate = 0.5,
        max_length: Positive,
        vocabulary_size: Positive,
        train_examples: Positive = 20_000,
        held_out: Positive = 2000,
    ):
        in_colours(channels)
        self.layout = Layout(side, grid, min_objects, max_objects, clutter)
        longest = 5 * max_objects
        if longest > max_length:
            raise ConfigError(f"data.max_length: captions of {max_objects} objects have {longest} tokens, {max_length} "
                              "are too few")  # fmt: skip
        self.max_length, self.vocabulary_size = max_length, vocabulary_size
        self.tokenizer = KnownWords(WORDS, vocabulary_size=vocabulary_size)
        self.numbers = {"train": train_examples, "validation": held_out, "test": held_out}
        self.name = f"collages of {min_objects} to {max_objects} digits in {grid} x {grid} cells"
        super().__init__()
        self.drawn = functools.cache(lambda split: collages(split, self.numbers[split], self.layout, self._report))

    def _captions(self, split: str) -> list[tuple[list[str], list[int]]]:
        drawn = self.drawn(split)
        return [caption(*row) for row in zip(drawn["digit"], drawn["colour"], drawn["size"], strict=True)]

    def _made(self, split: str) -> Batch:
        words, cells = zip(*self._captions(split), strict=True)
        return {
            "target": padded(self.tokenizer.encode([" ".join(one) for one in words]), self.max_length),
            "cells": padded(list(cells), self.max_length),
            "objects": np.count_nonzero(self.drawn(split)["digit"] >= 0, axis=1).astype(np.int32),
        }

    def pictures_of(self, split: str, texts: np.ndarray) -> np.ndarray:
        """The picture of each caption, which has the same number."""
        return texts

    def images(self, split: str, pictures: np.ndarray) -> np.ndarray:
        """The pictures with the given numbers, uint8 [n side side 3]."""
        return self.drawn(split)["image"][pictures]

    def learned(self) -> dict[str, list[str]]:
        """The words in order."""
        return {"words": list(WORDS)}

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of the settings and of the pictures and captions of the test split."""
        arrays = self.arrays("test")
        settings = [self.numbers, self.max_length, dataclasses.asdict(self.layout)]
        return storage.content_hash(settings, digests(self.drawn("test")["image"], arrays["target"], arrays["cells"]))

    def describe(self) -> str:
        """A one-line description for the user."""
        side = self.layout.side
        return f"{self.name} · {self.numbers['train']:,} of {side} x {side} pixels · {self.tokenizer.size} words"

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training; makes nothing."""
        side, long = self.layout.side, (batch_size, self.max_length)
        return [{"image": (batch_size, side, side, 3), "target": long, "cells": long, "objects": (batch_size,)}]

    # Evaluation

    def references(self, split: str) -> list[list[str]]:
        """The captions of each picture of a split (always one), indexed by example id."""
        return [[text] for text in self.tokenizer.decode(self.arrays(split)["target"].tolist())]

    def text(self, split: str) -> tuple[list[str], list[list[str]]]:
        """A name for each picture of a split, and its captions, indexed by example id."""
        references = self.references(split)
        return [f"{split} {number}" for number in range(len(references))], references

    def written(self, tokens: Sequence[Sequence[int]], sources: Sequence[str]) -> list[str]:
        """The text of the tokens that a model generated for some pictures."""
        del sources
        return self.tokenizer.decode(tokens)

    def target_tokens(self, split: str, examples: int | None = None) -> np.ndarray:
        """The tokens of the captions of a split (or of `examples` of it), concatenated."""
        return self.target_sentences(split, examples).flat

    def target_sentences(self, split: str, examples: int | None = None) -> TokenArray:
        """The captions of a split (or of `examples` of it) as separate sequences."""
        return TokenArray.unpadded(batch["target"] for _, batch in self.evaluation_batches(split, 256, examples))

    def target_counts(self) -> np.ndarray:
        """[tokens] how often each word of the vocabulary is in a caption of training."""
        return np.bincount(self.target_tokens("train"), minlength=self.tokenizer.size)
