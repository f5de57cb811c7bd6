"""TFDS builder `fashion_images`: Fashion-MNIST (Xiao, Rasul & Vollgraf 2017), from Debian's dataset-fashion-mnist.

70,000 grey photographs of clothes, 28 x 28, light on black, in ten classes (MIT). The test split is the official one.
Training is the first 55,000 and validation the last 5,000 of the official 60,000 training images, in file order. TFDS's
`fashion_mnist` has the same images, without a validation split.
"""

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from attention_research.data.debian_package import DebianPackage, files
from attention_research.data.image_source import encoded
from attention_research.data.registry_package import fetch

PACKAGE = DebianPackage(
    "dataset-fashion-mnist",
    "0.0~git20200523.55506a9-1",
    "39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0",
    size=30_900_652,
)
FOLDER = "usr/share/datasets/fashion-mnist/"
CLASSES = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
VALIDATION = 5000


def idx(data: bytes) -> np.ndarray:
    """The array of bytes in an IDX file (LeCun's format for MNIST).

    >>> idx(b"\\x00\\x00\\x08\\x02" + b"\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x03" + b"abc").tolist()
    [[97, 98, 99]]
    """
    rank = data[3]
    shape = np.frombuffer(data, ">i4", rank, offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def read(archive: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Split -> (images [n 28 28], classes [n])."""
    found = {path.removeprefix(FOLDER): idx(gzip.decompress(data)) for path, data in files(archive, _wanted)}
    parts = {name: (found[f"{name}-images-idx3-ubyte.gz"], found[f"{name}-labels-idx1-ubyte.gz"]) for name in _PARTS}
    images, labels = parts["train"]
    return {
        "train": (images[:-VALIDATION], labels[:-VALIDATION]),
        "validation": (images[-VALIDATION:], labels[-VALIDATION:]),
        "test": parts["t10k"],
    }


_PARTS = ("train", "t10k")


def _wanted(path: str) -> bool:
    return path.startswith(FOLDER) and path.endswith("-ubyte.gz")


class FashionImages(tfds.core.GeneratorBasedBuilder):
    """Features `image` and `label`; the key of an example is its position in its split."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.FeaturesDict(
            {
                "image": tfds.features.Image(shape=(28, 28, 1), encoding_format="png"),
                "label": tfds.features.ClassLabel(names=CLASSES),
            }
        )
        return tfds.core.DatasetInfo(builder=self, description=__doc__, features=features)

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples(*arrays) for split, arrays in read(fetch(PACKAGE)).items()}

    def _generate_examples(self, images, labels) -> Iterator:
        for number, (image, label) in enumerate(zip(images, labels, strict=True)):
            yield number, {"image": encoded(image[..., None]), "label": int(label)}
