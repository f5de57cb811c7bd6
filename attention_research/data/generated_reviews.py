"""Batches of generated reviews: `source` [B S], the rating of one aspect in [0, 1], and the words that justify it.

A batch has `source` int32, 0 at padding; `ratings` float32 [B 1]; and `gold` int32 [B S], 1 at the words of the
aspect's sentence. Rows that only fill a batch are all padding. The text is generated on demand and not stored: 8,000
reviews take half a second.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, Self

import numpy as np

from attention_research.data import storage
from attention_research.data.in_memory import InMemory
from attention_research.data.protocol import Batch
from attention_research.data.review_sentences import GRADES, Review, reviews
from attention_research.data.words import most_frequent
from attention_research.errors import ConfigError
from attention_research.signatures import Positive, Rate
from attention_research.tokens import UNKNOWN

#: The number of reviews in the splits that are not for training.
HELD_OUT = {"validation": 500, "test": 1000}


class Words:
    """The most frequent words of the training split; at most `size` tokens with the four special ones."""

    def __init__(self, texts: Sequence[Sequence[str]], size: int):
        ranked = most_frequent((word for text in texts for word in text), size - UNKNOWN - 1)
        self._words = ("<pad>", "<s>", "</s>", "<unk>", *ranked)
        self._ids = {word: number for number, word in enumerate(self._words) if number > UNKNOWN}

    @property
    def size(self) -> int:
        """The number of tokens, special ones included."""
        return len(self._words)

    def encode(self, words: Sequence[str]) -> list[int]:
        """A token for each word."""
        return [self._ids.get(word, UNKNOWN) for word in words]

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The word of each token."""
        return [self._words[int(token)] for token in tokens]


class GeneratedReviews(InMemory):
    """Reviews of three aspects; `aspect` is the rated one. `correlation` is that of the grades of two aspects.

    Reviews are truncated at `max_length` tokens. Words that are not among the `vocabulary_size` tokens are unknown.
    """

    name = "generated reviews"
    evaluation_seed = 1606
    dtypes: ClassVar[Mapping[str, str]] = {"ratings": "float32"}

    def __init__(
        self,
        *,
        max_length: Positive,
        vocabulary_size: Positive,
        aspect: Literal["appearance", "smell", "palate"] = "appearance",
        correlation: Rate = 0.0,
        train_examples: Positive = 8000,
    ):
        self.max_length, self.vocabulary_size = max_length, vocabulary_size
        self.aspect, self.correlation = aspect, correlation
        self.numbers = {"train": train_examples, **HELD_OUT}
        self.reviews = functools.cache(lambda split: reviews(split, self._number(split), correlation))
        super().__init__()

    def prepare(self, progress: Callable[[str], None] | None = None) -> Self:
        """Returns the data; nothing has to be downloaded."""
        return self

    @functools.cached_property
    def tokenizer(self) -> Words:
        """The vocabulary of the training split."""
        return Words([review.words for review in self.reviews("train")], self.vocabulary_size)

    def learned(self) -> dict[str, list[str]]:
        """The words in order."""
        return {"words": self.tokenizer.pieces(range(self.tokenizer.size))}

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of the text, ratings and gold words of every split."""
        lines = [repr((one.words, one.topics, one.grades)) for split in self.numbers for one in self.reviews(split)]
        return storage.content_hash([self.aspect, self.max_length, self.tokenizer.size], lines)

    def describe(self) -> str:
        """A one-line description for the user."""
        return f"generated reviews of {self.aspect} · {self.numbers['train']:,} · {self.tokenizer.size:,} words"

    def _number(self, split: str) -> int:
        if split not in self.numbers:
            raise ConfigError(f"generated reviews have no split {split!r}; they have {', '.join(self.numbers)}")
        return self.numbers[split]

    def _made(self, split: str) -> Batch:
        """A whole split as one batch."""
        all_: list[Review] = self.reviews(split)
        made = self._empty(len(all_))
        for row, one in enumerate(all_):
            tokens = self.tokenizer.encode(one.words)[: self.max_length]
            made["source"][row, : len(tokens)] = tokens
            made["gold"][row, : len(tokens)] = one.gold(self.aspect)[: len(tokens)]
            made["ratings"][row] = one.grades[self.aspect] / (GRADES - 1)
        return made

    def _empty(self, rows: int) -> Batch:
        (shapes,) = self.train_shapes(rows)
        return {name: np.zeros(shape, self.dtypes.get(name, "int32")) for name, shape in shapes.items()}

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training."""
        long = (batch_size, self.max_length)
        return [{"source": long, "ratings": (batch_size, 1), "gold": long}]
