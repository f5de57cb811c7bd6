"""Pictures with captions: from a data set's name to batches that are a pure function of (seed, step).

A batch is {"image" [B Y X C] uint8, "target" [B T] int32}: 0 to 255; the tokens of one caption, 0 where padding, with
the end of sentence. Training sees pairs of a picture and one of its captions; evaluation sees each picture once, with
its first caption as target, and scores against all that it has (`references`). Rows that only fill a batch are 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from attention_research.data.named_picture_texts import NamedPictureTexts
from attention_research.data.named_pictures import Pictures, PictureSet
from attention_research.data.protocol import Batch
from attention_research.data.tokens import TokenArray
from attention_research.registry import Child, Positive


class CaptionTexts(NamedPictureTexts):
    """Captions wherever they come from, as batches; lengths are those of `NamedPictureTexts`."""

    array = "target"
    evaluation_seed = 1411
    #: At most so many tokens are written of a caption; None: as many as the model can.
    target_length = None

    def sizes(self) -> dict[str, int]:
        """Pairs of the training split that are read, pictures of the others."""
        return {split: n if split == "train" else self._images.number(split) for split, n in self.numbers.items()}

    def describe(self) -> str:
        """One line for the user: name, pictures, captions, tokens."""
        pictures, captions = self._images.number("train"), self.numbers["train"]
        return f"{self.name} · {pictures:,} pictures · {captions:,} captions · {self.tokenizer.size:,} tokens"

    # Evaluation

    def evaluation_batches(
        self, split: str, batch_size: int, examples: int | None = None
    ) -> Iterator[tuple[np.ndarray, Batch]]:
        """(ids of pictures [B], batch) over a split, or over `examples` of a fixed permutation; -1 marks a filling row.

        Of the training split a picture is left out where all its captions are.
        """
        captions = np.arange(len(self.arrays(split)["target"]))
        pictures, first = np.unique(self.pictures_of(split, captions), return_index=True)
        order = np.arange(len(pictures))
        if examples is not None:
            order = np.sort(np.random.default_rng(self.evaluation_seed).permutation(order)[:examples])
        for start in range(0, len(order), batch_size):
            some = order[start : start + batch_size]
            ids = np.pad(pictures[some], (0, batch_size - len(some)), constant_values=-1)
            yield ids, self._taken(split, first[some], batch_size)

    def references(self, split: str) -> list[list[str]]:
        """All captions of each picture of a split, normalised. Example ids index them."""
        found: list[list[str]] = [[] for _ in range(self._images.number(split))]
        for picture, text in zip(self._choice.pictures(split), self._text(split), strict=True):
            found[picture].append(text)
        return found

    def text(self, split: str) -> tuple[list[str], list[list[str]]]:
        """What each picture of a split is called, and all its captions. Example ids index them."""
        references = self.references(split)
        return [f"{split} {number}" for number in range(len(references))], references

    def written(self, tokens: Sequence[Sequence[int]], sources: Sequence[str]) -> list[str]:
        """The text of what a model wrote of some pictures."""
        del sources
        return self.tokenizer.decode(tokens)

    def target_counts(self) -> np.ndarray:
        """[tokens] how often each token is in the captions that `target_tokens` has of training; no picture is read."""
        if self.kept is not None and "target_counts" in self.kept.learned:
            return np.asarray(self.kept.learned["target_counts"])
        targets = self.arrays("train")["target"]
        _, first = np.unique(self.pictures_of("train", np.arange(len(targets))), return_index=True)
        return np.bincount(targets[first][targets[first] != 0], minlength=self.tokenizer.size)

    def target_tokens(self, split: str, examples: int | None = None) -> np.ndarray:
        """The target tokens of a split's evaluation (or of `examples` of it) one after the other."""
        batches = self.evaluation_batches(split, 256, examples)
        return np.concatenate([batch["target"][batch["target"] != 0] for _, batch in batches])

    def target_sentences(self, split: str, examples: int | None = None) -> TokenArray:
        """The captions of a split's evaluation (or of `examples` of it), of training all that there are; no picture of
        training is read."""
        if split == "train":
            return TokenArray.unpadded([self.arrays("train")["target"]])
        return TokenArray.unpadded(batch["target"] for _, batch in self.evaluation_batches(split, 256, examples))


class Captions(CaptionTexts):
    """A captioned TFDS set, its vocabulary, and its batches; lengths are those of `NamedPictureTexts`.

    `train_examples` takes that many pictures of a fixed permutation of the training split, on whose captions the
    vocabulary then rests. `normalization` "words" lowers the case and takes punctuation off the words, in references
    too.
    """

    feature, fields = "captions", ("text",)

    def __init__(
        self,
        *,
        name: str,
        side: Positive,
        channels: Positive,
        max_length: Positive,
        vocabulary_size: Positive,
        tokenizer: Child["tokenizer"] = "words",
        normalization: Literal["words", "none"] = "words",
        train_examples: Positive | None = None,
    ):
        choice = PictureSet.named(name, self.feature, self.fields, normalization, train_examples)
        super().__init__(name, choice, Pictures(choice, side, channels), side, channels, max_length, tokenizer)
        self.vocabulary_size = vocabulary_size
