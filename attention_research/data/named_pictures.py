"""TFDS sets of pictures with several texts each, by name: reads the texts and the resized pictures separately.

The texts of a picture are a sequence of features, as in {"image", "captions": {"text": [...]}} (coco_captions,
emoji_names, stamp_captions) or {"image", "questions": {"question": [...], "answer": [...]}} (shape_questions).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from attention_research.data import sources
from attention_research.data.labelled import words_apart
from attention_research.data.labelled_arrays import kept
from attention_research.data.names import check_name
from attention_research.data.prepared import Named, chosen
from attention_research.errors import ConfigError

#: The name of a split in COCO -> its name here.
SPLITS = {"val": "validation"}
#: A split with at most this many bytes of pictures is held in memory; a larger one is read on demand.
HELD = 2**29
_LINE = "\n"


@dataclasses.dataclass(frozen=True)
class PictureSet(Named):
    """The input of `prepared.prepare`: the first field of `feature` for all pictures of a set, concatenated.

    `normalization` "words" converts to lower case and separates punctuation from words; "none" leaves the texts
    unchanged. `train_examples` selects that many pictures of a fixed permutation of the training split.
    """

    feature: str
    fields: tuple[str, ...]
    normalization: str
    train_examples: int | None = None

    @classmethod
    def named(cls, name: str, *settings: Any) -> PictureSet:
        """Raises `ConfigError` with the nearest name if there is no set of this name."""
        check_name(name)
        return cls(name, *settings)

    def splits(self) -> tuple[str, ...]:
        return tuple(SPLITS.get(split, split) for split in super().splits())

    def its_name(self, split: str) -> str:
        """The set's own name of a split."""
        of_set = {here: there for there, here in SPLITS.items()}
        return split if split in super().splits() else of_set.get(split, split)

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The texts of a split, normalised, and the same number of empty ones, in the order of the token arrays."""
        texts = self.field(split, self.fields[0])
        normalized = words_apart if self.normalization == "words" else str
        return [normalized(text) for text in texts], [""] * len(texts)

    def field(self, split: str, name: str) -> list[str]:
        """One field of all texts of a split, with spaces instead of line breaks."""
        return bytes(self._read(split)[name]).decode().split(_LINE)[:-1]

    def marks(self, split: str) -> list[str]:
        """The other fields of the texts (such as answers), which are part of the digest."""
        return [text for name in self.fields[1:] for text in self.field(split, name)]

    def pictures(self, split: str) -> np.ndarray:
        """[texts] the number of the picture of each text."""
        counts = self._read(split)["counts"]
        return np.repeat(np.arange(len(counts)), counts)

    def _read(self, split: str) -> dict[str, np.ndarray]:
        """The number of texts of each picture, and each field as bytes with one line per text; stored without
        pictures."""
        stamp = self.stamp()
        read = lambda: self._made(split)
        return kept(PictureSet, [split, dataclasses.asdict(self), stamp], read) if stamp else read()

    def _made(self, split: str) -> dict[str, np.ndarray]:
        import tensorflow_datasets as tfds

        features = sources.builder(self.name).info.features
        if self.feature not in features:
            raise ConfigError(f"data.name: {self.name} has no {self.feature}; it has {', '.join(sorted(features))}")
        there = sources.data_source(self.name, self.its_name(split), decoders={"image": tfds.decode.SkipDecoding()})
        lines: dict[str, list[str]] = {name: [] for name in self.fields}
        counts = []
        for index in chosen(split, len(there), self.train_examples):
            texts = there[int(index)][self.feature]
            counts.append(len(texts[self.fields[0]]))
            for name in self.fields:
                lines[name] += [_one_line(text) + _LINE for text in texts[name]]
        as_bytes = {name: np.frombuffer("".join(texts).encode(), np.uint8) for name, texts in lines.items()}
        return {"counts": np.asarray(counts), **as_bytes}


class Pictures:
    """The pictures of a set, each resized as a whole to a square of `side` pixels, with 1 or 3 `channels`."""

    def __init__(self, of: Any, side: int, channels: int):
        self._set, self._side, self._channels = of, side, channels
        self._opened, self._all = functools.cache(self._open), functools.cache(self._hold)
        self.report: Callable[[str], None] = lambda line: None

    def use(self, of: Any) -> None:
        """Uses the same set from another path, before any picture is read."""
        self._set = of

    def number(self, split: str) -> int:
        """The number of pictures of a split."""
        return len(self._opened(split)[1])

    def __call__(self, split: str, pictures: np.ndarray) -> np.ndarray:
        """The pictures with the given numbers, uint8 [n side side channels]."""
        if self.number(split) * self._side**2 * self._channels <= HELD:
            return self._all(split)[pictures]
        return self._resized(split, pictures)

    def _open(self, split: str) -> tuple[Any, np.ndarray]:
        """(the split as stored, the indices of the pictures that are used)."""
        from attention_research.data.image_source import open_images

        there = open_images(self._set.name, self._set.its_name(split))
        return there, chosen(split, len(there), self._set.train_examples)

    def _resized(self, split: str, pictures: np.ndarray) -> np.ndarray:
        from attention_research.data.image_source import resized

        there, places = self._opened(split)
        images = np.zeros((len(pictures), self._side, self._side, self._channels), np.uint8)
        for row, place in enumerate(places[pictures]):
            images[row] = resized(there[int(place)]["image"], self._side, self._channels)
        return images

    def _stamp(self, split: str) -> str | None:
        """A string that changes if the pictures of a split may have changed."""
        return self._set.stamp()

    def _hold(self, split: str) -> np.ndarray:
        stamp = self._stamp(split)
        settings = [split, self._set.name, self._set.train_examples, self._side, self._channels, stamp]

        def read() -> dict[str, np.ndarray]:
            self.report(f"resizing {self.number(split):,} pictures of {split}")
            return {"image": self._resized(split, np.arange(self.number(split)))}

        return (kept(Pictures, settings, read) if stamp else read())["image"]


def _one_line(text: bytes | str) -> str:
    """TFDS gives bytes from files and str from `mock_data`."""
    return " ".join((text.decode() if isinstance(text, bytes) else str(text)).split())
