"""Shared code for captions and questions of pictures: vocabulary, tokens, resized pictures, batches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from attention_research.data import storage
from attention_research.data.batching import read_ahead
from attention_research.data.named_pictures import Pictures
from attention_research.data.picture_texts import PictureTexts, digests, padded
from attention_research.data.plan import Plan
from attention_research.data.protocol import Batch
from attention_research.data.tokenised import Tokenised
from attention_research.data.tokens import BySplit
from attention_research.errors import ConfigError

CHANNELS = (1, 3)
#: The number of test pictures in the fingerprint.
DIGESTED = 16


class NamedPictureTexts(Tokenised, PictureTexts):
    """The texts of `choice` as "`array`" [B max_length], each about one of `pictures`.

    Each picture is resized as a whole to `side` x `side` pixels. `max_length` counts tokens with the end of sentence. A
    longer training text is left out and counted (`dropped`); a longer text of validation or test is truncated and keeps
    the end of sentence.
    """

    #: The name of the token array in a batch.
    array: ClassVar[str]

    def __init__(
        self, name: str, choice: Any, pictures: Pictures, side: int, channels: int, max_length: int,
        tokenizer: Callable[[], Any],
    ):  # fmt: skip
        if channels not in CHANNELS:
            raise ConfigError(f"channels: {channels} is neither 1, grey, nor 3, colours")
        self.name, self.max_length, self.shape = name, max_length, (side, side, channels)
        self._new_tokenizer, self._choice, self._images = tokenizer, choice, pictures
        super().__init__()
        self._images.report = lambda line: self._report(line)
        self._kept, self._about = functools.cache(self._short_enough), functools.cache(self._pictures)

    # Contents

    def prepare(self, progress: Callable[[str], None] | None = None) -> Self:
        """Builds the set, trains the vocabulary, tokenises and resizes, where missing; later calls only open the
        files."""
        self._report = progress or self._report
        self._prepared.open("train", "validation")
        super().prepare(progress)
        self.images("train", np.zeros(1, int))
        return self

    def _text(self, split: str) -> list[str]:
        """The texts of a split, normalised."""
        return (self._choice if self.kept is None else self._prepared).text(split)[0]

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of the texts of every split, of the vocabulary, and of the first pictures of the test split."""
        some = np.arange(min(DIGESTED, self._images.number("test")))
        settings = [self._prepared.fingerprint, self.shape, self.max_length]
        return storage.content_hash(settings, digests(self.images("test", some)))

    @functools.cached_property
    def numbers(self) -> Mapping[str, int]:  # type: ignore[override]  # each computed on demand
        return BySplit(tuple(self._prepared.tokens), lambda split: len(self._kept(split)))

    @property
    def dropped(self) -> int:
        """The number of training texts left out because they have more than `max_length` tokens."""
        return len(self._prepared.tokens["train"][0]) - self.numbers["train"]

    def shortened(self) -> dict[str, int]:
        """Split -> the number of its texts that are truncated to `max_length` tokens."""
        tokens = {split: sides[0] for split, sides in self._prepared.tokens.items() if split != "train"}
        counts = {split: int(np.sum(of.lengths > self.max_length)) for split, of in tokens.items()}
        return {split: count for split, count in counts.items() if count}

    def _short_enough(self, split: str) -> np.ndarray:
        """The indices of the texts of a split that are used."""
        lengths = self._prepared.tokens[split][0].lengths
        return np.flatnonzero(lengths <= self.max_length) if split == "train" else np.arange(len(lengths))

    def _pictures(self, split: str) -> np.ndarray:
        return self._choice.pictures(split)[self._kept(split)]

    def pictures_of(self, split: str, texts: np.ndarray) -> np.ndarray:
        """[n] the number of the picture of each text."""
        return self._about(split)[texts]

    def images(self, split: str, pictures: np.ndarray) -> np.ndarray:
        """The pictures with the given numbers, uint8 [n Y X C]."""
        return self._images(split, pictures)

    def _made(self, split: str) -> Batch:
        tokens = self._prepared.tokens[split][0]
        return {self.array: padded([cut(tokens[one], self.max_length) for one in self._kept(split)], self.max_length)}

    # Training

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training; reads nothing."""
        return [{"image": (batch_size, *self.shape), self.array: (batch_size, self.max_length)}]

    def _plan(self, seed: int, batch_size: int) -> Plan:
        if not self.numbers["train"]:
            raise ConfigError(f"max_length: no training text of {self.name} has at most {self.max_length} tokens")
        return super()._plan(seed, batch_size)

    def train_batches(
        self, seed: int, batch_size: int, start_step: int = 0, host: int = 0, hosts: int = 1
    ) -> Iterator[tuple[int, Batch]]:
        """(step, batch) from `start_step` on, without end; threads read ahead. The step is the only state."""
        return read_ahead(lambda step: self.batch_at(seed, step, batch_size, host, hosts), start_step)


def cut(tokens: Sequence[int], width: int) -> list[int]:
    """At most `width` tokens; the last one, the end of sentence, is kept.

    >>> cut([7, 8, 9, 2], 3)
    [7, 8, 2]
    """
    return list(tokens) if len(tokens) <= width else [*tokens[: width - 1], tokens[-1]]
