"""Texts with one label each, by the name of a data set; batches are a pure function of (seed, step).

A batch is {"source" [B S], "document_frequency" [B S], "documents" [B], "label" [B]}, all int32. "source" holds the
tokens, 0 at padding. "document_frequency" is the number of training texts that contain each token (0 at padding), and
"documents" the number of training texts; an inverse document frequency is computed from both. "label" is the class, -1
in rows that only fill a batch.
"""

import dataclasses
import functools
import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from attention_research.data import sources
from attention_research.data.batching import Buckets
from attention_research.data.pairs import Pairs
from attention_research.data.prepared import Named, chosen
from attention_research.data.protocol import Batch
from attention_research.data.tokens import BySplit, TokenArray
from attention_research.signatures import Child, Positive

_WORD = re.compile(r"\w+(?:'\w+)*|[^\w\s]")


@functools.cache
def _word_with_marks() -> re.Pattern[str]:
    """`_WORD`, where a word also contains the combining marks after its letters, which are not in `\\w`."""
    marks = "".join(chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "M")
    word = f"\\w[\\w{marks}]*"
    return re.compile(f"{word}(?:'{word})*|[^\\w\\s]")


def words_apart(text: str) -> str:
    """The text in lower case, with spaces between words and punctuation.

    >>> words_apart("It isn't Beckham's, is it?")
    "it isn't beckham's , is it ?"
    >>> words_apart("हिन्दी भाषा")
    'हिन्दी भाषा'
    """
    return " ".join((_WORD if text.isascii() else _word_with_marks()).findall(text.lower()))


@dataclasses.dataclass(frozen=True)
class Texts(Named):
    """The input of `prepared.prepare`: the texts of a set as sources. Labels are not text, so targets are empty."""

    normalization: str
    train_examples: int | None = None

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The texts of a split and the same number of empty texts, in the order of the token arrays."""
        normalized = words_apart if self.normalization == "words" else str
        texts = [normalized(text) for text in self.feature(split, "text")]
        return texts, [""] * len(texts)

    def marks(self, split: str) -> list[str]:
        """The labels of a split, which are part of its digest."""
        return self.feature(split, "label")

    def feature(self, split: str, name: str) -> list[str]:
        """The "text" of each example of a split, unchanged, or its "label", the name of the class."""
        there = sources.open_split(self.name, split)
        return [there[index][name] for index in chosen(split, len(there), self.train_examples)]


class LabelledData(Pairs):
    """A labelled TFDS set, its vocabulary, and its batches; the interface is that of `Pairs`.

    `normalization` "words" converts to lower case and separates punctuation from words; "none" leaves the text
    unchanged. A text of more than `max_length` tokens is truncated, in training too. `train_examples` selects that many
    texts of a fixed permutation of the training split; the vocabulary and the document frequencies then come from these
    only.
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
        """Tokens in the form of `Pairs`: the target of a text is one token, its class plus one."""
        prepared = super()._prepared
        texts = prepared.tokens
        labelled = lambda split: (texts[split][0], TokenArray.join((label + 1,) for label in self.labels(split)))
        prepared.tokens = BySplit(tuple(texts), labelled)
        return prepared

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The texts of a split, normalised, and the names of their classes, indexed by example id."""
        return super().text(split)[0], [self.classes[label] for label in self.labels(split)]

    def labels(self, split: str) -> np.ndarray:
        """The class numbers [n] of a split, indexed by example id."""
        if split not in self._labels:
            numbers = {name: number for number, name in enumerate(self.classes)}
            names = self._choice.feature(split, "label")
            self._labels[split] = np.asarray([numbers[name] for name in names], np.int32)
        return self._labels[split]

    def describe(self) -> str:
        """A one-line description for the user: name, texts, tokens."""
        return f"{self.name} · {len(self._train_ids):,} texts · {self.tokenizer.size:,} tokens"

    @functools.cached_property
    def _train_lengths(self) -> np.ndarray:
        lengths = np.minimum(self._prepared.tokens["train"][0].lengths, self.max_length)
        return np.stack([lengths, np.ones_like(lengths)], axis=1)

    def tokens(self, split: str) -> list[np.ndarray]:
        """The tokens of each text of a split as in a batch: truncated, with the end of sentence."""
        cut = lambda ids: ids if len(ids) <= self.max_length else np.append(ids[: self.max_length - 1], ids[-1])
        return [cut(ids) for ids in self._prepared.tokens[split][0]]

    @functools.cached_property
    def document_frequency(self) -> np.ndarray:
        """[tokens] the number of training texts that contain each token of the vocabulary."""
        if self.kept is not None and "document_frequency" in self.kept.learned:
            return np.asarray(self.kept.learned["document_frequency"], np.int32)
        distinct = [np.unique(ids) for ids in self.tokens("train")]
        return np.bincount(np.concatenate(distinct), minlength=self.tokenizer.size).astype(np.int32)

    @functools.cached_property
    def documents(self) -> int:
        """The number of training texts."""
        if self.kept is not None and "documents" in self.kept.learned:
            return self.kept.learned["documents"]
        return len(self._train_ids)

    def learned(self) -> dict[str, Any]:
        """The classes in order, and the counts of training texts for the inverse document frequency."""
        frequency = self.document_frequency.tolist()
        return {"classes": list(self.classes), "documents": self.documents, "document_frequency": frequency}

    def shortened(self) -> dict[str, int]:
        """Split -> the number of its texts that are truncated to `max_length` tokens."""
        lengths = {split: sides[0].lengths for split, sides in self._prepared.tokens.items()}
        counts = {split: int(np.sum(of > self.max_length)) for split, of in lengths.items()}
        return {split: count for split, count in counts.items() if count}

    def batch_at(self, seed: int, step: int, batch_size: int, host: int = 0, hosts: int = 1) -> Batch:
        """The batch of a step, counted from 0; with several hosts, the rows of one host."""
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
        """Array name -> shape, for each batch shape of training; reads nothing."""
        rows = {"documents": (batch_size,), "label": (batch_size,)}
        return [
            {"source": (batch_size, length), "document_frequency": (batch_size, length), **rows}
            for length in self.batching.lengths
        ]
