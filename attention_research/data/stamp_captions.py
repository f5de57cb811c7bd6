"""TFDS builder `stamp_captions/en`: stamp pictures with captions, from a drawing program for children.

Debian's tuxpaint-stamps-default (GPL-2) has 785 pictures (PNG), each with a caption in the first line of its text file:
"A frog.", "A spiny lobster, from the Hawaiian islands". The 247 pictures under symbols/ are left out: letters, digits,
notes, chess pieces and coins. The other 538 are cut-out photographs and drawings, here on white and in their original
size, mostly 50 to 450 pixels wide and high. 33 captions have more than eight words, and most of these mention things
that are not visible.

`kind` is "drawing" for pictures in a folder named cartoon, and for pictures in which at least a tenth of the opaque
neighbouring pixels are equal; all others are "photograph". This rule finds 316 photographs, about twenty of which are
in fact shaded drawings. Pictures with equal captions (up to case and punctuation) and nearly equal pictures
(`near_pictures`) are in one split, by MD5 of the caption as in `reviews`.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image

from attention_research.data import near_duplicates, near_pictures
from attention_research.data.debian_package import DebianPackage, files
from attention_research.data.image_source import decoded, encoded
from attention_research.data.registry_package import fetch

PACKAGE = DebianPackage(
    "tuxpaint-stamps-default",
    "2022.06.04-1",
    "6db6c1bfc870a47f1499d6203b083522eacb57c5f9c87d468f2e92eb6d9d5f34",
    size=160_880_444,
)
FOLDER = "usr/share/tuxpaint/stamps/"
LEFT_OUT = "symbols/"
KINDS = ("drawing", "photograph")
#: In a drawing, at least this fraction of the neighbouring pixels are equal.
FLAT = 0.1


@dataclass(frozen=True)
class Stamp:
    """A stamp: its path below the package's folder without suffix, its PNG file, and its caption."""

    path: str
    png: bytes
    caption: str


def read(archive: Path) -> list[Stamp]:
    """Every stamp with a caption, without the symbols, in the order of the paths."""
    found = {path.removeprefix(FOLDER): data for path, data in files(archive, _wanted)}
    captions = {path[:-4]: _first_line(data) for path, data in found.items() if path.endswith(".txt")}
    pictures = sorted(path[:-4] for path in found if path.endswith(".png"))
    return [Stamp(path, found[f"{path}.png"], captions[path]) for path in pictures if captions.get(path)]


def _wanted(path: str) -> bool:
    inside = path.startswith(FOLDER) and not path.startswith(FOLDER + LEFT_OUT)
    return inside and path.endswith((".png", ".txt"))


def _first_line(text: bytes) -> str:
    return " ".join(text.decode("utf-8").split("\n", 1)[0].split())


def kind(stamp: Stamp) -> str:
    """Which of `KINDS` a stamp is."""
    with Image.open(io.BytesIO(stamp.png)) as picture:
        pixels = np.asarray(picture.convert("RGBA"))
    left, right = pixels[:, :-1], pixels[:, 1:]
    solid = (left[..., 3] == 255) & (right[..., 3] == 255)
    equal = (left == right).all(axis=-1) & solid
    drawn = "cartoon" in PurePosixPath(stamp.path).parts or equal.sum() >= FLAT * solid.sum()
    return KINDS[0] if drawn else KINDS[1]


def splits(stamps: Sequence[Stamp], images: Sequence[np.ndarray]) -> list[str]:
    """The split of each stamp; equal captions and nearly equal pictures are in one split."""
    captions = [stamp.caption for stamp in stamps]
    links = [*near_duplicates.equal(map(near_duplicates.words, captions)), *near_pictures.alike(images)]
    return near_duplicates.splits(captions, links)


class StampCaptions(tfds.core.GeneratorBasedBuilder):
    """Features `image`, `captions` (a sequence of one `text`) and `kind`; an example's key is its path."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="en")]

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.FeaturesDict(
            {
                "image": tfds.features.Image(shape=(None, None, 3), encoding_format="png"),
                "captions": tfds.features.Sequence({"text": tfds.features.Text()}),
                "kind": tfds.features.ClassLabel(names=KINDS),
            }
        )
        return tfds.core.DatasetInfo(builder=self, description=__doc__, features=features)

    def _split_generators(self, dl_manager):
        stamps = read(fetch(PACKAGE))
        images = [decoded(stamp.png) for stamp in stamps]
        found: dict[str, list] = {"train": [], "validation": [], "test": []}
        for stamp, image, split in zip(stamps, images, splits(stamps, images), strict=True):
            found[split].append((stamp, image))
        return {split: self._generate_examples(members) for split, members in found.items()}

    def _generate_examples(self, members) -> Iterator:
        for stamp, image in members:
            captions = [{"text": stamp.caption}]
            yield stamp.path, {"image": encoded(image), "captions": captions, "kind": kind(stamp)}
