"""Labelled images, by the name of a TFDS set; batches are a pure function of (seed, step).

A batch is {"image" uint8 [B side side channels], 0 to 255, "label" int32 [B]}; a row that only fills a batch is black
and has label -1. An image is cropped to the square at its centre and then resized, once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np

from attention_research.data import sources, storage
from attention_research.data.batching import read_ahead
from attention_research.data.in_memory import InMemory
from attention_research.data.labelled_arrays import kept
from attention_research.data.names import check_name
from attention_research.data.prepared import chosen
from attention_research.data.protocol import Batch
from attention_research.errors import ConfigError
from attention_research.signatures import Positive

if TYPE_CHECKING:
    from attention_research.data.image_source import Images

#: A split with at most this many bytes of images is held in memory; for a larger one each batch is read and decoded.
HELD = 2**30
#: The number of images that are read and decoded at once.
_AT_ONCE = 500
#: The width of the black border, in pixels, that is added before a crop of the original size.
PADDING = 4
#: Set -> TFDS names of the splits whose labels are not public.
UNLABELLED = {"imagenet2012": ("test",)}


class ImageData(InMemory):
    """A labelled set by name, with images of `side` x `side` pixels and 1 or 3 `channels`.

    If a set has no validation split, validation is the last tenth of its training split in the order in which TFDS
    stores it, by a hash. `train_examples` selects that many examples of one fixed permutation of the training split,
    without regard to their classes; a smaller selection is part of a larger one. `augmentation` changes training images
    only: "flip_and_shift" is `flipped_and_shifted`.
    """

    fill: ClassVar[Mapping[str, int]] = {"label": -1}
    dtypes: ClassVar[Mapping[str, str]] = {"image": "uint8"}
    evaluation_seed = 2015

    def __init__(
        self,
        *,
        name: str,
        side: Positive,
        channels: Positive,
        train_examples: Positive | None = None,
        augmentation: Literal["none", "flip_and_shift"] = "none",
    ):
        check_name(name, kind="images")
        if channels not in (1, 3):
            raise ConfigError(f"data.channels: an image has 1 channel or 3, not {channels}")
        self.name, self.side, self.channels, self.max_length = name, side, channels, 1
        self.train_examples, self.augmentation = train_examples, augmentation
        self._report: Callable[[str], None] = lambda line: None
        self._images, self._places = functools.cache(self._opened), functools.cache(self._chosen)
        self._kept_images = functools.cache(self._held)
        super().__init__()

    # Contents

    def prepare(self, progress: Callable[[str], None] | None = None) -> Self:
        """Downloads and builds the set if it is one of ours, and reads the training split."""
        self._report = progress or self._report
        self._taken("train", np.arange(1), 1)
        return self

    @functools.cached_property
    def _splits(self) -> dict[str, str]:
        """Our name of a split -> the TFDS name of the split or of a part of it."""
        sources.prepare(self.name, self._report)
        there = [split for split in sources.split_names(self.name) if split not in UNLABELLED.get(self.name, ())]
        if "validation" in there:
            return {split: split for split in there}
        return {"train": "train[:90%]", "validation": "train[90%:]"} | {s: s for s in there if s != "train"}

    @functools.cached_property
    def numbers(self) -> dict[str, int]:  # type: ignore[override]  # a set is opened only when needed
        """Examples of each split."""
        return {split: len(self._places(split)) for split in self._splits}

    @property
    def classes(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the classes in the order of their numbers."""
        sources.prepare(self.name, self._report)
        return tuple(sources.builder(self.name).info.features["label"].names)

    def labels(self, split: str) -> np.ndarray:
        """The class numbers [n] of a split, indexed by example id."""
        return self.arrays(split)["label"]

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of the settings, of all labels, and of some images of every split."""
        settings = [self.name, self.side, self.channels, self.augmentation, self.numbers]
        some = [self.images(split, np.arange(min(64, number))) for split, number in self.numbers.items()]
        labels = [self.labels(split) for split in self.numbers]
        return storage.content_hash(settings, [array.tobytes().hex() for array in (*labels, *some)])

    def describe(self) -> str:
        """A one-line description for the user."""
        return (
            f"{self.name} · {self.numbers['train']:,} images of {self.side} x {self.side} pixels · "
            f"{len(self.classes):,} classes"
        )

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training; reads nothing."""
        return [{"image": (batch_size, self.side, self.side, self.channels), "label": (batch_size,)}]

    # Reading

    def _opened(self, split: str) -> Images:
        from attention_research.data.image_source import open_images

        return open_images(self.name, self._splits[split])

    def _chosen(self, split: str) -> np.ndarray:
        """The positions of a split's examples in its files."""
        return chosen(split, len(self._images(split)), self.train_examples)

    def _made(self, split: str) -> Batch:
        """The labels of a split, read without decoding an image."""
        return self._stored("label", split, lambda: self._images(split).feature("label").astype(np.int32))

    def images(self, split: str, ids: np.ndarray) -> np.ndarray:
        """The images of the given examples of a split, uint8 [n side side channels]."""
        if len(self._images(split)) * self.side**2 * self.channels <= HELD:
            return self._kept_images(split)[ids]
        return self._resized(split, self._places(split)[ids])

    def _held(self, split: str) -> np.ndarray:
        read = lambda: self._resized(split, np.arange(len(self._images(split))))
        return self._stored("image", split, read, self.side, self.channels)["image"]

    def _stored(self, column: str, split: str, read: Callable[[], np.ndarray], *settings: int) -> Batch:
        """{column: its values for a split}; the whole column is read once and then kept in the data folder."""
        stamp = sources.stamp(self.name)
        whole = [column, self.name, self._splits[split], stamp, *settings]

        def make() -> Batch:
            self._report(f"reading the {column}s of {len(self._images(split)):,} examples of {split}")
            return {column: read()}

        values = (kept(ImageData, whole, make) if stamp else make())[column]
        return {column: values[self._places(split)]}

    def _resized(self, split: str, places: np.ndarray) -> np.ndarray:
        from attention_research.data.image_source import middle, resized

        images = np.empty((len(places), self.side, self.side, self.channels), np.uint8)
        for start in range(0, len(places), _AT_ONCE):
            found = self._images(split).__getitems__(places[start : start + _AT_ONCE].tolist())
            for row, example in enumerate(found, start):
                images[row] = resized(middle(example["image"]), self.side, self.channels)
        return images

    # Batches

    def _taken(self, split: str, ids: np.ndarray, rows: int) -> Batch:
        (shapes,) = self.train_shapes(rows)
        image, label = np.zeros(shapes["image"], np.uint8), np.full(shapes["label"], self.fill["label"], np.int32)
        image[: len(ids)], label[: len(ids)] = self.images(split, ids), self.labels(split)[ids]
        return {"image": image, "label": label}

    def batch_at(self, seed: int, step: int, batch_size: int, host: int = 0, hosts: int = 1) -> Batch:
        """The batch of a step, counted from 0; with several hosts, the rows of one host."""
        batch = super().batch_at(seed, step, batch_size, host, hosts)
        if self.augmentation == "flip_and_shift":
            generator = np.random.default_rng([seed, step, self.evaluation_seed])
            batch["image"] = flipped_and_shifted(batch["image"], generator, host * (batch_size // hosts))
        return batch

    def train_batches(
        self, seed: int, batch_size: int, start_step: int = 0, host: int = 0, hosts: int = 1
    ) -> Iterator[tuple[int, Batch]]:
        """(step, batch) from `start_step` on, without end; threads read ahead. The step is the only state."""
        return read_ahead(lambda step: self.batch_at(seed, step, batch_size, host, hosts), start_step)


def flipped_and_shifted(images: np.ndarray, generator: np.random.Generator, first: int = 0) -> np.ndarray:
    """Augmentation of small photographs (He et al. 2015, section 4.2): images uint8 [n Y X C], each shifted by up to
    four pixels vertically and horizontally, and mirrored with probability 1/2.

    Pixels from outside an image are black, 0. `generator` draws for the images of a whole batch; these are the images
    from `first` on, so that several hosts get the same images as one host.
    """
    draws = generator.random((first + len(images), 3))[first:]
    top, left = np.floor((2 * PADDING + 1) * draws[:, :2]).astype(int).T
    mirrored = draws[:, 2] < 0.5
    padded = np.pad(images, ((0, 0), (PADDING, PADDING), (PADDING, PADDING), (0, 0)))
    rows = top[:, None] + np.arange(images.shape[1])
    columns = np.arange(images.shape[2])
    columns = left[:, None] + np.where(mirrored[:, None], columns[::-1], columns)
    return padded[np.arange(len(images))[:, None, None], rows[:, :, None], columns[:, None, :]]
