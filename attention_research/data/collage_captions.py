"""Collages with captions whose every word is known by its cell: what attention is pointed at, word by word.

    a large red seven , a small blue two and a large green four        cells 0 3 3 3 0 0 5 5 5 0 0 9 9 9

A caption names the objects of a picture (`collages`) in reading order, each by its size, colour and digit: 5 words for
each of them less one in all, so that 60 objects take 299. A word of an object is in its cell, counted by rows from 1;
the words between are in none, 0. Caption and cells are functions of the picture: each has one right caption.
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
from attention_research.registry import Positive, Rate

WORDS = ("a", ",", "and", *SIZES, *COLOURS, *DIGITS)


def caption(digits: np.ndarray, colours: np.ndarray, sizes: np.ndarray) -> tuple[list[str], list[int]]:
    """(words, the cell of each) of a picture whose cells [cells] are given in numbers, -1 where there is no object.

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
    """A vocabulary of words that are known beforehand; the interface is that of `words.Words`, without `fit`."""

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

    A batch has "image" [B side side 3] uint8, "target" and "cells" [B T], 0 at the end of sentence too, and "objects"
    [B], how many the picture has. Training and evaluation see a picture with its one caption; ids number both.
    """

    evaluation_seed = 1502
    #: At most so many tokens are written of a caption; None: as many as the model can.
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
        """A caption has its picture's number."""
        return texts

    def images(self, split: str, pictures: np.ndarray) -> np.ndarray:
        """uint8 [n side side 3] of some pictures by their numbers."""
        return self.drawn(split)["image"][pictures]

    def learned(self) -> dict[str, list[str]]:
        """The words in their order."""
        return {"words": list(WORDS)}

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of the settings, and of the test split's pictures and captions."""
        arrays = self.arrays("test")
        settings = [self.numbers, self.max_length, dataclasses.asdict(self.layout)]
        return storage.content_hash(settings, digests(self.drawn("test")["image"], arrays["target"], arrays["cells"]))

    def describe(self) -> str:
        """One line for the user."""
        side = self.layout.side
        return f"{self.name} · {self.numbers['train']:,} of {side} x {side} pixels · {self.tokenizer.size} words"

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Name -> shape of every batch that training can see; nothing is made."""
        side, long = self.layout.side, (batch_size, self.max_length)
        return [{"image": (batch_size, side, side, 3), "target": long, "cells": long, "objects": (batch_size,)}]

    # Evaluation

    def references(self, split: str) -> list[list[str]]:
        """All captions of each picture of a split, which has one. Example ids index them."""
        return [[text] for text in self.tokenizer.decode(self.arrays(split)["target"].tolist())]

    def text(self, split: str) -> tuple[list[str], list[list[str]]]:
        """What each picture of a split is called, and its captions. Example ids index them."""
        references = self.references(split)
        return [f"{split} {number}" for number in range(len(references))], references

    def written(self, tokens: Sequence[Sequence[int]], sources: Sequence[str]) -> list[str]:
        """The text of what a model wrote of some pictures."""
        del sources
        return self.tokenizer.decode(tokens)

    def target_tokens(self, split: str, examples: int | None = None) -> np.ndarray:
        """The tokens of the captions of a split (or of `examples` of it) one after the other."""
        return self.target_sentences(split, examples).flat

    def target_sentences(self, split: str, examples: int | None = None) -> TokenArray:
        """The same, each caption a sequence of its own."""
        return TokenArray.unpadded(batch["target"] for _, batch in self.evaluation_batches(split, 256, examples))

    def target_counts(self) -> np.ndarray:
        """[tokens] how often each word of the vocabulary is in a caption of training."""
        return np.bincount(self.target_tokens("train"), minlength=self.tokenizer.size)
