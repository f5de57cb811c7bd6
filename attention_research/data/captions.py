"""Pictures with captions, by the name of a data set; batches are a pure function of (seed, step).

A batch is {"image" [B Y X C] uint8, "target" [B T] int32}. Images have values from 0 to 255. A target is the tokens of
one caption with the end of sentence, 0 at padding. Training uses pairs of a picture and one of its captions. Evaluation
uses each picture once, with its first caption as target, and scores against all its captions (`references`). Rows that
only fill a batch are 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from attention_research.data.named_picture_texts import NamedPictureTexts
from attention_research.data.named_pictures import Pictures, PictureSet
from attention_research.data.protocol import Batch
from attention_research.data.tokens import TokenArray
from attention_research.signatures import Child, Positive


class CaptionTexts(NamedPictureTexts):
    """Batches of captions from any source; `NamedPictureTexts` explains the lengths."""

    array = "target"
    evaluation_seed = 1411
    #: The largest number of generated tokens; None: the limit of the model.
    target_length = None

    def sizes(self) -> dict[str, int]:
        """The number of pairs that are read of the training split, and of pictures of the other splits."""
        return {split: n if split == "train" else self._images.number(split) for split, n in self.numbers.items()}

    def describe(self) -> str:
        """A one-line description for the user: name, pictures, captions, tokens."""
        pictures, captions = self._images.number("train"), self.numbers["train"]
        return f"{self.name} · {pictures:,} pictures · {captions:,} captions · {self.tokenizer.size:,} tokens"

    # Evaluation

    def evaluation_batches(
        self, split: str, batch_size: int, examples: int | None = None
    ) -> Iterator[tuple[np.ndarray, Batch]]:
        """(picture ids [B], batch) over a split, or over `examples` of a fixed permutation; -1 marks a filling row.

        A picture of the training split is left out if all its captions are left out.
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
        """All captions of each picture of a split, normalised, indexed by example id."""
        found: list[list[str]] = [[] for _ in range(self._images.number(split))]
        for picture, text in zip(self._choice.pictures(split), self._text(split), strict=True):
            found[picture].append(text)
        return found

    def text(self, split: str) -> tuple[list[str], list[list[str]]]:
        """A name for each picture of a split, and all its captions, indexed by example id."""
        references = self.references(split)
        return [f"{split} {number}" for number in range(len(references))], references

    def written(self, tokens: Sequence[Sequence[int]], sources: Sequence[str]) -> list[str]:
        """The text of the tokens that a model generated for some pictures."""
        del sources
        return self.tokenizer.decode(tokens)

    def target_counts(self) -> np.ndarray:
        """[tokens] the count of each token in the captions of `target_tokens("train")`; reads no picture."""
        if self.kept is not None and "target_counts" in self.kept.learned:
            return np.asarray(self.kept.learned["target_counts"])
        targets = self.arrays("train")["target"]
        _, first = np.unique(self.pictures_of("train", np.arange(len(targets))), return_index=True)
        return np.bincount(targets[first][targets[first] != 0], minlength=self.tokenizer.size)

    def target_tokens(self, split: str, examples: int | None = None) -> np.ndarray:
        """The target tokens of a split's evaluation (or of `examples` of it), concatenated."""
        batches = self.evaluation_batches(split, 256, examples)
        return np.concatenate([batch["target"][batch["target"] != 0] for _, batch in batches])

    def target_sentences(self, split: str, examples: int | None = None) -> TokenArray:
        """The captions of a split's evaluation (or of `examples` of it). For training, all captions, without reading a
        picture."""
        if split == "train":
            return TokenArray.unpadded([self.arrays("train")["target"]])
        return TokenArray.unpadded(batch["target"] for _, batch in self.evaluation_batches(split, 256, examples))


class Captions(CaptionTexts):
    """A captioned TFDS set, its vocabulary, and its batches; `NamedPictureTexts` explains the lengths.

    `train_examples` selects that many pictures of a fixed permutation of the training split; the vocabulary is then
    trained on their captions only. `normalization` "words" converts to lower case and separates punctuation from words,
    also in the references.
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
