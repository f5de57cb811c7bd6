"""TFDS builder `articles/adjectives`: the gender of an article depends on a noun up to eight words later.

    the old ... warm library closes this tree        la ... bibliotheque ferme cet arbre

English words and French-like words of `reordering_grammar`, translated word by word in source order. A sentence is two
noun phrases around a verb. Each phrase is an article, 0 to `ADJECTIVES` adjectives (every number equally likely) and a
noun, all drawn uniformly. The articles and adjectives of the source have no gender. In the target, the article comes
before all words that show the gender, so that it can be known only from the noun of the source. Target adjectives agree
with the noun. The text is generated.
"""

import random
from collections.abc import Iterator

import tensorflow_datasets as tfds

from attention_research.data import reordering_grammar as grammar
from attention_research.data.by_hash import split_of

SEED, SENTENCES = 1409, 20_000
#: The largest number of adjectives of a noun.
ADJECTIVES = 8
#: English, masculine, feminine
ARTICLES = tuple(entry[:3] for entry in grammar.DETERMINERS if "-" not in entry[1:3] and entry[1] != entry[2])
#: The verbs that are one word in the target.
VERBS = tuple(entry for entry in grammar.VERBS[True] if "-" not in entry[1])
#: A target article -> the article of the other gender.
OTHER = {form: other for _, one, two in ARTICLES for form, other in ((one, two), (two, one))}
_SOURCE_ARTICLES = frozenset(article for article, *_ in ARTICLES)
_SOURCE_NOUNS = frozenset(noun for noun, *_ in grammar.NOUNS)

#: source word, target word
Words = list[tuple[str, str]]


def phrase(chance: random.Random) -> Words:
    """An article, adjectives, a noun."""
    noun, stem, gender = chance.choice(grammar.NOUNS)
    article = chance.choice(ARTICLES)
    adjectives = [chance.choice(grammar.ADJECTIVES) for _ in range(chance.randrange(ADJECTIVES + 1))]
    agreeing = [(adjective, form + "e" * (gender == "f")) for adjective, form in adjectives]
    return [(article[0], article["mf".index(gender) + 1]), *agreeing, (noun, stem)]


def sentences() -> Iterator[tuple[str, str]]:
    """`SENTENCES` different sentences with their translations, the same in every call."""
    chance = random.Random(SEED)
    seen: set[str] = set()
    while len(seen) < SENTENCES:
        verb, stem = chance.choice(VERBS)
        words = [*phrase(chance), (f"{verb}s", f"{stem}e"), *phrase(chance)]
        source, target = (" ".join(side) for side in zip(*words, strict=True))
        if source not in seen:
            seen.add(source)
            yield source, target


def agreements(source: str) -> list[tuple[int, int]]:
    """(position of an article, position of its noun) for both phrases of a source; the target has the same positions.

    >>> agreements("the small dog finds a house")
    [(0, 2), (4, 5)]
    """
    words = source.split()
    articles = [place for place, word in enumerate(words) if word in _SOURCE_ARTICLES]
    nouns = [place for place, word in enumerate(words) if word in _SOURCE_NOUNS]
    return list(zip(articles, nouns, strict=True))


class Articles(tfds.core.GeneratorBasedBuilder):
    """Features `source` and `target`, as in a translation set; the key of an example is its number."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name="adjectives", description=f"0 to {ADJECTIVES} adjectives before a noun")
    ]

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.Translation(languages=("source", "target"))
        return tfds.core.DatasetInfo(builder=self, description=__doc__, features=features)

    def _split_generators(self, dl_manager):
        splits: dict[str, list] = {"train": [], "validation": [], "test": []}
        for number, (source, target) in enumerate(sentences()):
            splits[split_of(source)].append((number, {"source": source, "target": target}))
        return {split: self._generate_examples(examples) for split, examples in splits.items()}

    def _generate_examples(self, examples):
        yield from examples
