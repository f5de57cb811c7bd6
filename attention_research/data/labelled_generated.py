"""TFDS builder `labelled_generated/{frequent,rare,dissimilar}`: texts whose informative words are known.

`frequent` and `rare` are made of words with Zipf frequencies, p(rank) ~ 1 / rank, that say nothing of the class, and
each holds three words that do: two classes have as many of their own, and a text draws each of the three from its own
class three times out of four. What differs is how often a class-bearing word occurs: of 4 a class (`frequent`) each is
in about a third of the texts, so that its IDF is low; of 300 a class (`rare`) each is in one text of 200, and its IDF
is high.

`dissimilar`: a text is three left words and three right words of `PAIRS` pairs (left_k, right_k), in any order. Its
class is whether a pair of it is complete; every word is as frequent in one class as in the other, so that no weighting
of single words tells anything, and a left word has to find the right word of its own number, which is nothing like it.

Deterministic; no real text.
"""

import random
from collections.abc import Iterator

import tensorflow_datasets as tfds

SEED, TEXTS, LENGTH, TYPES = 1972, 12_000, 30, 600
LABELS = {f"labelled_generated/{name}": ("0", "1") for name in ("frequent", "rare", "dissimilar")}
#: Class-bearing words of each class, and how many of them a text holds.
BEARING = {"frequent": 4, "rare": 300}
HELD, OWN_CLASS = 3, 0.75
PAIRS, OF_EACH = 16, 3


def bearing_words(name: str, label: int) -> list[str]:
    """The class-bearing words of a class."""
    return [f"{'ab'[label]}{number}" for number in range(BEARING[name])]


def weighted_texts(name: str) -> Iterator[tuple[str, int]]:
    """(text, class) of `frequent` or `rare`, without end."""
    chance = random.Random(f"{SEED} {name}")
    noise, weights = [f"n{rank}" for rank in range(TYPES)], [1 / (rank + 1) for rank in range(TYPES)]
    own = [bearing_words(name, label) for label in (0, 1)]
    while True:
        label = chance.randrange(2)
        words = chance.choices(noise, weights, k=LENGTH - HELD)
        words += [chance.choice(own[label if chance.random() < OWN_CLASS else 1 - label]) for _ in range(HELD)]
        chance.shuffle(words)
        yield " ".join(words), label


def paired_texts() -> Iterator[tuple[str, int]]:
    """(text, class) of `dissimilar`, without end."""
    chance = random.Random(f"{SEED} dissimilar")
    while True:
        label = chance.randrange(2)
        left = chance.sample(range(PAIRS), OF_EACH)
        others = [number for number in range(PAIRS) if number not in left]
        right = chance.sample(others, OF_EACH - label) + chance.sample(left, label)
        words = [*(f"l{number}" for number in left), *(f"r{number}" for number in right)]
        chance.shuffle(words)
        yield " ".join(words), label


def examples(name: str) -> Iterator[tuple[int, str, str, str]]:
    """(number, split, text, class) of a set: its first `TEXTS` texts; every tenth is for test, the next validation."""
    made = paired_texts() if name == "dissimilar" else weighted_texts(name)
    for number, (text, label) in zip(range(TEXTS), made, strict=False):
        yield number, {0: "test", 1: "validation"}.get(number % 10, "train"), text, str(label)


class LabelledGenerated(tfds.core.GeneratorBasedBuilder):
    """Features `text` and `label` ("0" or "1"); the key of an example is its number."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name="frequent", description="the words that bear the class are frequent"),
        tfds.core.BuilderConfig(name="rare", description="the words that bear the class are rare"),
        tfds.core.BuilderConfig(name="dissimilar", description="the class is whether two unlike words belong together"),
    ]

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.FeaturesDict({name: tfds.features.Text() for name in ("text", "label")})
        return tfds.core.DatasetInfo(builder=self, description=__doc__, features=features)

    def _split_generators(self, dl_manager):
        splits: dict[str, list] = {"train": [], "validation": [], "test": []}
        for number, split, text, label in examples(self.builder_config.name):
            splits[split].append((number, {"text": text, "label": label}))
        return {split: self._generate_examples(some) for split, some in splits.items()}

    def _generate_examples(self, examples):
        yield from examples
