"""Images with a class each, by the name of their TFDS set: batches that are a pure function of (seed, step).

A batch is {"image" uint8 [B side side channels], 0 to 255, "label" int32 [B]}; a row that only fills it is black and of
class -1. An image that is no square loses what is beside its middle one, and is then resized, once.
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
from attention_research.data.names import LABELLED_IMAGES, added, check_name
from attention_research.data.prepared import chosen
from attention_research.data.protocol import Batch
from attention_research.errors import ConfigError
from attention_research.registry import Positive

if TYPE_CHECKING:
    from attention_research.data.image_source import Images

#: A split whose images take at most so many bytes is held in memory; of a larger one each batch is read and decoded.
HELD = 2**30
#: Images that are decoded before the next are read.
_AT_ONCE = 500
#: So many pixels of black are put around an image before a piece of its size is cut out.
PADDING = 4
#: TFDS's names of splits whose labels are not public.
UNLABELLED = {"imagenet2012": ("test",)}


class ImageData(InMemory):
    """A labelled set by name, its images `side` pixels wide and high with 1 or 3 `channels`.

    A set without a validation split lends it the last tenth of its training split as TFDS stores it, by a hash.
    `train_examples` takes that many of one fixed permutation of the training split, whatever their classes, so that a
    smaller choice is in a larger one. `augmentation` changes what training sees: "flip_and_shift" as in
    `flipped_and_shifted`.
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
        check_name(name)
        if name.split(":")[0] not in (*LABELLED_IMAGES, *added()):
            raise ConfigError(f"data.name: {name} has no images with one label each; {', '.join(LABELLED_IMAGES)} have")
        if channels not in (1, 3):
            raise ConfigError(f"data.channels: an image has 1 channel or 3, not {channels}")
        self.name, self.side, self.channels, self.max_length = name, side, channels, 1
        self.train_examples, self.augmentation = train_examples, augmentation
        self._report: Callable[[str], None] = lambda line: None
        self._images, self._places = functools.cache(self._opened), functools.cache(self._chosen)
        self._kept_images = functools.cache(self._held)
        super().__init__()

    # What there is

    def prepare(self, progress: Callable[[str], None] | None = None) -> Self:
        """Fetch and build the set where that is ours to do, and read the training split."""
        self._report = progress or self._report
        self._taken("train", np.arange(1), 1)
        return self

    @functools.cached_property
    def _splits(self) -> dict[str, str]:
        """Our name of a split -> TFDS's, of a part of one perhaps."""
        sources.prepare(self.name, self._report)
        there = [split for split in sources.split_names(self.name) if split not in UNLABELLED.get(self.name, ())]
        if "validation" in there:
            return {split: split for split in there}
        return {"train": "train[:90%]", "validation": "train[90%:]"} | {s: s for s in there if s != "train"}

    @functools.cached_property
    def numbers(self) -> dict[str, int]:  # type: ignore[override]  # a set is opened only when it is asked for
        """Examples of each split."""
        return {split: len(self._places(split)) for split in self._splits}

    @property
    def classes(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the classes in the order of their numbers."""
        sources.prepare(self.name, self._report)
        return tuple(sources.builder(self.name).info.features["label"].names)

    def labels(self, split: str) -> np.ndarray:
        """The classes [n] of a split. Example ids index them."""
        return self.arrays(split)["label"]

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of what the examples are a function of, of all labels and of some images of every split."""
        settings = [self.name, self.side, self.channels, self.augmentation, self.numbers]
        some = [self.images(split, np.arange(min(64, number))) for split, number in self.numbers.items()]
        labels = [self.labels(split) for split in self.numbers]
        return storage.content_hash(settings, [array.tobytes().hex() for array in (*labels, *some)])

    def describe(self) -> str:
        """One line for the user."""
        return (
            f"{self.name} · {self.numbers['train']:,} images of {self.side} x {self.side} pixels · "
            f"{len(self.classes):,} classes"
        )

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Name -> shape of every batch that training can see; nothing is read."""
        return [{"image": (batch_size, self.side, self.side, self.channels), "label": (batch_size,)}]

    # Reading

    def _opened(self, split: str) -> Images:
        from attention_research.data.image_source import open_images

        return open_images(self.name, self._splits[split])

    def _chosen(self, split: str) -> np.ndarray:
        """The places in its files of the examples of a split."""
        return chosen(split, len(self._images(split)), self.train_examples)

    def _made(self, split: str) -> Batch:
        """The labels of a split, read without decoding an image."""
        return self._stored("label", split, lambda: self._images(split).feature("label").astype(np.int32))

    def images(self, split: str, ids: np.ndarray) -> np.ndarray:
        """uint8 [n side side channels] of some examples of a split."""
        if len(self._images(split)) * self.side**2 * self.channels <= HELD:
            return self._kept_images(split)[ids]
        return self._resized(split, self._places(split)[ids])

    def _held(self, split: str) -> np.ndarray:
        read = lambda: self._resized(split, np.arange(len(self._images(split))))
        return self._stored("image", split, read, self.side, self.channels)["image"]

    def _stored(self, column: str, split: str, read: Callable[[], np.ndarray], *settings: int) -> Batch:
        """{column: its values at the places of a split}; all of them are read once, then kept in the data folder."""
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
        """The batch of a step, counted from 0; of several hosts, the rows of one."""
        batch = super().batch_at(seed, step, batch_size, host, hosts)
        if self.augmentation == "flip_and_shift":
            generator = np.random.default_rng([seed, step, self.evaluation_seed])
            batch["image"] = flipped_and_shifted(batch["image"], generator, host * (batch_size // hosts))
        return batch

    def train_batches(
        self, seed: int, batch_size: int, start_step: int = 0, host: int = 0, hosts: int = 1
    ) -> Iterator[tuple[int, Batch]]:
        """(step, batch) from `start_step` on, without end, read ahead by threads. The step is the whole state."""
        return read_ahead(lambda step: self.batch_at(seed, step, batch_size, host, hosts), start_step)


def flipped_and_shifted(images: np.ndarray, generator: np.random.Generator, first: int = 0) -> np.ndarray:
    """What training sees of small photographs (He et al. 2015, section 4.2): images uint8 [n Y X C], each shifted by up
    to four pixels either way, up, down and sideways, and every second one mirrored on average.

    What comes in from beside an image is black, 0. `generator` draws for the images of a whole batch, of which these
    are the ones from `first` on, so that several hosts see what one would.
    """
    draws = generator.random((first + len(images), 3))[first:]
    top, left = np.floor((2 * PADDING + 1) * draws[:, :2]).astype(int).T
    mirrored = draws[:, 2] < 0.5
    padded = np.pad(images, ((0, 0), (PADDING, PADDING), (PADDING, PADDING), (0, 0)))
    rows = top[:, None] + np.arange(images.shape[1])
    columns = np.arange(images.shape[2])
    columns = left[:, None] + np.where(mirrored[:, None], columns[::-1], columns)
    return padded[np.arange(len(images))[:, None, None], rows[:, :, None], columns[:, None, :]]
