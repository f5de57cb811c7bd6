"""Texts with one label each: from a data set's name to batches that are a pure function of (seed, step).

A batch is {"source" [B S], "document_frequency" [B S], "documents" [B], "label" [B]}, all int32: the tokens (0 is
padding); of each token, in how many training texts it stands (0 for padding and for what stands in none), and how many
those texts are, which is what an inverse document frequency is made of; the class, -1 in rows that only fill a batch.
"""

import dataclasses
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from attention_research.data import sources
from attention_research.data.batching import Buckets
from attention_research.data.pairs import Pairs
from attention_research.data.prepared import Named, chosen
from attention_research.data.protocol import Batch
from attention_research.data.tokens import BySplit, TokenArray
from attention_research.registry import Child, Positive

_WORD = re.compile(r"\w+(?:'\w+)*|[^\w\s]")


def words_apart(text: str) -> str:
    """Lower case, with a space between words and marks.

    >>> words_apart("It isn't Beckham's, is it?")
    "it isn't beckham's , is it ?"
    """
    return " ".join(_WORD.findall(text.lower()))


@dataclasses.dataclass(frozen=True)
class Texts(Named):
    """What `prepared.prepare` reads: the texts of a set as sources; its labels are no text, so targets are empty."""

    normalization: str
    train_examples: int | None = None

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The texts of a split and as many empty ones, in the order of the token arrays."""
        normalized = words_apart if self.normalization == "words" else str
        texts = [normalized(text) for text in self.feature(split, "text")]
        return texts, [""] * len(texts)

    def marks(self, split: str) -> list[str]:
        """The labels: a text is another one where its label is."""
        return self.feature(split, "label")

    def feature(self, split: str, name: str) -> list[str]:
        """The "text" of each example of a split as it is, or its "label": the class's name."""
        there = sources.open_split(self.name, split)
        return [there[index][name] for index in chosen(split, len(there), self.train_examples)]


class LabelledData(Pairs):
    """A labelled TFDS set, its vocabulary, and its batches; the interface is that of `Pairs`.

    `normalization` "words" lowers the case and takes punctuation off the words, "none" leaves the text as it is. A text
    of more than `max_length` tokens is cut, in training too. `train_examples` takes that many of a fixed permutation of
    the training split, on which alone the vocabulary and the document frequencies then rest.
    """

    #: Their names in the order of their numbers.
    classes: Sequence[str]

    def __init__(
        self,
        *,
        name: str,
        max_length: Positive,
        vocabulary_size: Positive,
        tokenizer: Child["tokenizer"] = "words",
        boundaries: tuple[Positive, ...] = (32, 64, 128, 256),
        normalization: Literal["words", "none"] = "words",
        train_examples: Positive | None = None,
    ):
        batching = functools.partial(Buckets, boundaries=boundaries, max_length=max_length)
        self.classes, self.normalization = sources.labels(name), normalization
        super().__init__(name, max_length, tokenizer, batching, train_examples)
        self.vocabulary_size = vocabulary_size
        self._labels: dict[str, np.ndarray] = {}

    @functools.cached_property
    def _choice(self) -> Texts:
        return Texts(self.name, self.normalization, self.train_examples)

    @functools.cached_property
    def _prepared(self) -> Any:
        """Tokens as `Pairs` wants them: the target of a text is one token, its class plus one."""
        prepared = super()._prepared
        texts = prepared.tokens
        labelled = lambda split: (texts[split][0], TokenArray.join((label + 1,) for label in self.labels(split)))
        prepared.tokens = BySplit(tuple(texts), labelled)
        return prepared

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The texts of a split, normalised, and their classes' names. Example ids index them."""
        return super().text(split)[0], [self.classes[label] for label in self.labels(split)]

    def labels(self, split: str) -> np.ndarray:
        """The classes [n] of a split. Example ids index them."""
        if split not in self._labels:
            numbers = {name: number for number, name in enumerate(self.classes)}
            names = self._choice.feature(split, "label")
            self._labels[split] = np.asarray([numbers[name] for name in names], np.int32)
        return self._labels[split]

    def describe(self) -> str:
        """One line for the user: name, texts, tokens."""
        return f"{self.name} · {len(self._train_ids):,} texts · {self.tokenizer.size:,} tokens"

    @functools.cached_property
    def _train_lengths(self) -> np.ndarray:
        lengths = np.minimum(self._prepared.tokens["train"][0].lengths, self.max_length)
        return np.stack([lengths, np.ones_like(lengths)], axis=1)

    def tokens(self, split: str) -> list[np.ndarray]:
        """The tokens of each text of a split as a batch holds them: cut, with the end of sentence."""
        cut = lambda ids: ids if len(ids) <= self.max_length else np.append(ids[: self.max_length - 1], ids[-1])
        return [cut(ids) for ids in self._prepared.tokens[split][0]]

    @functools.cached_property
    def document_frequency(self) -> np.ndarray:
        """[tokens] in how many training texts each token of the vocabulary stands."""
        if self.kept is not None and "document_frequency" in self.kept.learned:
            return np.asarray(self.kept.learned["document_frequency"], np.int32)
        distinct = [np.unique(ids) for ids in self.tokens("train")]
        return np.bincount(np.concatenate(distinct), minlength=self.tokenizer.size).astype(np.int32)

    @functools.cached_property
    def documents(self) -> int:
        """How many training texts there are."""
        if self.kept is not None and "documents" in self.kept.learned:
            return self.kept.learned["documents"]
        return len(self._train_ids)

    def learned(self) -> dict[str, Any]:
        """The classes in order, and the counts of training texts that an inverse document frequency is made of."""
        frequency = self.document_frequency.tolist()
        return {"classes": list(self.classes), "documents": self.documents, "document_frequency": frequency}

    def shortened(self) -> dict[str, int]:
        """Split -> how many of its texts are cut at `max_length` tokens."""
        lengths = {split: sides[0].lengths for split, sides in self._prepared.tokens.items()}
        counts = {split: int(np.sum(of > self.max_length)) for split, of in lengths.items()}
        return {split: count for split, count in counts.items() if count}

    def batch_at(self, seed: int, step: int, batch_size: int, host: int = 0, hosts: int = 1) -> Batch:
        """The batch of a step, counted from 0; of several hosts, the rows of one."""
        return self._labelled(super().batch_at(seed, step, batch_size, host, hosts))

    def evaluation_batches(
        self, split: str, batch_size: int, examples: int | None = None
    ) -> Iterator[tuple[np.ndarray, Batch]]:
        """(example ids [B], batch) over a split, as `Pairs.evaluation_batches`."""
        for ids, batch in super().evaluation_batches(split, batch_size, examples):
            yield ids, self._labelled(batch)

    def _labelled(self, batch: Batch) -> Batch:
        tokens = batch["source"]
        return {
            "source": tokens,
            "document_frequency": self.document_frequency[tokens],
            "documents": np.full(len(tokens), self.documents, np.int32),
            "label": batch["target"][:, 0] - 1,
        }

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Name -> shape of every batch that training can see; nothing is read."""
        rows = {"documents": (batch_size,), "label": (batch_size,)}
        return [
            {"source": (batch_size, length), "document_frequency": (batch_size, length), **rows}
            for length in self.batching.lengths
        ]
