"""TFDS builder `run_lengths/free`: sources and targets with independent lengths.

    - c 3 - - a 2        c c c a a
    b 12                 b b b b b b b b b b b b

A source is a run-length code: symbols, each with its number of repetitions, among fillers without meaning. A source of
2 words may have a target of 12 words, and a source of 12 words a target of one. Both lengths are drawn uniformly: from
2 to `LONGEST` for the source, from 1 for the target. The pairs are distinct: a pair that was drawn before is left out.
Short lengths are therefore rarer, such as sources of 2 words, of which there are only 96 pairs.
"""

import random
from collections.abc import Iterator

import tensorflow_datasets as tfds

from attention_research.data import by_hash

SEED, PAIRS = 1412, 30_000
LONGEST = 12
SYMBOLS, FILLER = "abcdefgh", "-"


def pair(chance: random.Random, source_length: int, target_length: int) -> tuple[str, str]:
    """A source and a target with the given numbers of words."""
    most = min(source_length // 2, target_length)
    runs = 1 + int(chance.random() * most)
    ends = sorted(chance.sample(range(1, target_length), runs - 1))
    counts = [end - start for start, end in zip([0, *ends], [*ends, target_length], strict=True)]
    symbols = [chance.choice(SYMBOLS) for _ in counts]
    words = [f"{symbol} {count}" for symbol, count in zip(symbols, counts, strict=True)]
    words += [FILLER] * (source_length - 2 * runs)
    order = sorted(chance.sample(range(len(words)), runs))  # the positions of the runs among the fillers
    placed = [FILLER] * len(words)
    for place, word in zip(order, words[:runs], strict=True):
        placed[place] = word
    target = [symbol for symbol, count in zip(symbols, counts, strict=True) for _ in range(count)]
    return " ".join(placed), " ".join(target)


def pairs() -> Iterator[tuple[str, str]]:
    """`PAIRS` different pairs, the same in every call."""
    chance = random.Random(SEED)
    seen: set[tuple[str, str]] = set()
    while len(seen) < PAIRS:
        lengths = 2 + int(chance.random() * (LONGEST - 1)), 1 + int(chance.random() * LONGEST)
        made = pair(chance, *lengths)
        if made not in seen:
            seen.add(made)
            yield made


def split_of(source: str) -> str:
    """The split of a source: MD5 modulo 10 is 0 for test, 1 for validation."""
    return by_hash.split_of(source, 10)


class RunLengths(tfds.core.GeneratorBasedBuilder):
    """Features `source` and `target`, as in a translation set; the key of an example is its number."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="free", description=f"each side of up to {LONGEST} words")]

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.Translation(languages=("source", "target"))
        return tfds.core.DatasetInfo(builder=self, description=__doc__, features=features)

    def _split_generators(self, dl_manager):
        splits: dict[str, list] = {"train": [], "validation": [], "test": []}
        for number, (source, target) in enumerate(pairs()):
            splits[split_of(source)].append((number, {"source": source, "target": target}))
        return {split: self._generate_examples(examples) for split, examples in splits.items()}

    def _generate_examples(self, examples):
        yield from examples
