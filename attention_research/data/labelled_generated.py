"""TFDS builder `labelled_generated/{frequent,rare,dissimilar}`: generated texts with known informative words.

A text of `frequent` or `rare` has words with Zipf frequencies, p(rank) ~ 1 / rank, which are independent of the class,
and three class words. Each of the two classes has the same number of class words. Each of the three class words of a
text comes from the text's own class with probability 3/4. The sets differ in the frequency of class words: with 4 per
class (`frequent`), each is in about a third of the texts and has a low IDF; with 300 per class (`rare`), each is in one
of 200 texts and has a high IDF.

A text of `dissimilar` has three left words and three right words of `PAIRS` pairs (left_k, right_k), in any order. The
class is whether the text contains a complete pair. Every word is equally frequent in both classes, so that weights of
single words do not help: a left word must find the right word with its number, which is not similar to it.

The texts are deterministic.
"""

import random
from collections.abc import Iterator

import tensorflow_datasets as tfds

SEED, TEXTS, LENGTH, TYPES = 1972, 12_000, 30, 600
LABELS = {f"labelled_generated/{name}": ("0", "1") for name in ("frequent", "rare", "dissimilar")}
#: The number of class words of each class.
BEARING = {"frequent": 4, "rare": 300}
HELD, OWN_CLASS = 3, 0.75
PAIRS, OF_EACH = 16, 3


def bearing_words(name: str, label: int) -> list[str]:
    """The class words of a class."""
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
    """(number, split, text, class) of a set: its first `TEXTS` texts. Of every ten, the first is for test and the
    second for validation."""
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
