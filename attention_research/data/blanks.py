"""Generated sentences with three blanks. Each blank depends on one known word, which an attention head must find.

    anna saw the keys near the cabinets by the door that _ old ; then _ took _ apple       were she an

The verb agrees with the subject, the first noun ("keys"), across phrases whose nouns may differ in number (after
Linzen, Dupoux & Goldberg 2016): a syntactic link. The pronoun refers to the name at the beginning: a link to an entity.
The article depends on the next word: a local link. Sources contain the blanks, and targets the three words in order.
"""

from __future__ import annotations

import dataclasses
import random

from attention_research.data.generated_pairs import GeneratedPairs
from attention_research.data.pairs import Pairs
from attention_research.signatures import Child, NonNegative, Positive

NAMES = {"anna": "she", "carol": "she", "ruth": "she", "emma": "she", "ben": "he", "david": "he", "paul": "he",
         "tom": "he"}  # fmt: skip
SUBJECTS = ("key", "book", "picture", "letter", "coat")
OTHERS = ("cabinet", "door", "window", "wall", "garden")
PREPOSITIONS = ("near", "by", "behind")
VERBS = {False: "was", True: "were"}  # whether the noun is plural
THINGS = {"apple": "an", "orange": "an", "egg": "an", "pear": "a", "plum": "a", "cake": "a"}
BLANK = "_"
#: The kinds of link, in the order of the blanks.
LINKS = ("syntax", "entity", "local")
EVALUATED = 1024
_SEEDS = {"train": 2016, "validation": 2017, "test": 2018}


def sentence(chance: random.Random, phrases: int) -> tuple[str, str]:
    """(source, target), with the given number of phrases between the subject and its verb."""
    name, thing = chance.choice(list(NAMES)), chance.choice(list(THINGS))
    plural = chance.random() < 0.5
    subject = chance.choice(SUBJECTS) + "s" * plural
    between = [
        word
        for _ in range(phrases)
        for word in (chance.choice(PREPOSITIONS), "the", chance.choice(OTHERS) + "s" * (chance.random() < 0.5))
    ]
    source = [name, "saw", "the", subject, *between, "that", BLANK, "old", ";", "then", BLANK, "took", BLANK, thing]
    return " ".join(source), " ".join([VERBS[plural], NAMES[name], THINGS[thing]])


def gold(source: str) -> dict[str, tuple[int, int]]:
    """Link -> (position of the blank, position of the word that it depends on), counted in words.

    >>> gold("anna saw the keys that _ old ; then _ took _ apple")
    {'syntax': (5, 3), 'entity': (9, 0), 'local': (11, 12)}
    """
    blanks = [place for place, word in enumerate(source.split()) if word == BLANK]
    return dict(zip(LINKS, zip(blanks, (3, 0, blanks[-1] + 1), strict=True), strict=True))


@dataclasses.dataclass(frozen=True)
class Sentences(GeneratedPairs):
    """Settings: at most `max_phrases` phrases between subject and verb, and the number of training examples."""

    max_phrases: int
    train_examples: int

    def pairs(self, split: str) -> list[tuple[str, str]]:
        """The pairs of a split, the same in every call; the numbers of phrases alternate."""
        chance = random.Random(_SEEDS[split])
        count = self.train_examples if split == "train" else EVALUATED
        return [sentence(chance, number % (self.max_phrases + 1)) for number in range(count)]


class BlanksData(Pairs):
    """Three blanks per sentence, 0 to `max_phrases` phrases between subject and verb (see the module docstring)."""

    def __init__(
        self,
        *,
        max_phrases: NonNegative = 4,
        max_length: Positive,
        vocabulary_size: Positive,
        tokenizer: Child["tokenizer"] = "words",
        batching: Child["batching"] = "buckets",
        train_examples: Positive = 20_000,
    ):
        name = f"blanks over 0 to {max_phrases} phrases"
        super().__init__(name, max_length, tokenizer, batching, train_examples)
        self.vocabulary_size = vocabulary_size
        self._choice = Sentences(max_phrases, train_examples)

    def gold(self, source: str) -> dict[str, tuple[int, int]]:
        """`gold` of a source."""
        return gold(source)
