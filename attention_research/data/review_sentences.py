"""Generated beer reviews: one sentence for each of three rated aspects, in random order among other sentences.

They replace the reviews of BeerAdvocate (Lei, Barzilay & Jaakkola 2016, section 5.1), which no registry package
contains. The rating of an aspect follows from two words of its grade in the sentence of that aspect ("its head is good
, almost glowing"). Half of these words can grade any aspect, so that a word alone does not identify the aspect. Other
sentences contain such words, too ("a good friend brought this bottle"). One grading word in ten is off by one grade; of
those of the lowest and the highest grade, it is one in twenty.

Each aspect takes the common grade of the review with probability sqrt(c), otherwise a grade of its own; all grades are
equally likely. The grades of two aspects therefore have the correlation c.
"""

from __future__ import annotations

import dataclasses
import random

ASPECTS = ("appearance", "smell", "palate")
GRADES = 5
SEED, NEIGHBOUR = 1606, 0.1
#: The possible numbers of unrelated sentences in a review.
ASIDES = (2, 3, 4)

#: Words of any aspect, by grade.
SHARED = (
    "terrible awful dreadful disgusting",
    "poor weak disappointing unpleasant",
    "average ordinary acceptable plain",
    "good pleasant nice solid",
    "excellent superb wonderful outstanding",
)
#: Words of one aspect alone, by grade.
OWN = {
    "appearance": ("lifeless muddy", "dull pale", "hazy amber", "bright ruby", "brilliant glowing"),
    "smell": ("rancid putrid", "musty stale", "faint earthy", "fresh floral", "fragrant heavenly"),
    "palate": ("undrinkable slimy", "watery thin", "light dry", "smooth creamy", "velvety luscious"),
}
NOUNS = {
    "appearance": "head colour foam lacing look",
    "smell": "nose aroma smell bouquet scent",
    "palate": "mouthfeel texture palate finish carbonation",
}
FEATURES = {
    "appearance": "bubbles streaks legs",
    "smell": "malt citrus pine spice",
    "palate": "fizz sweetness bitterness",
}
#: NOUN and FEATURE are words of the aspect; each GRADED is a word of its grade.
RATED = (
    "the NOUN is GRADED with GRADED FEATURE",
    "its NOUN is GRADED , almost GRADED",
    "a GRADED NOUN with GRADED FEATURE",
    "NOUN and FEATURE are GRADED and GRADED",
    "i find the NOUN GRADED , very GRADED",
)
#: ANY is a word of `SHARED` with a random grade that rates no aspect.
OTHER = (
    "a ANY friend brought this bottle",
    "poured from a SIZE bottle into a GLASS",
    "we had it on a ANY evening in MONTH",
    "bought for NUMBER dollars in a ANY shop",
    "served with FOOD at a ANY bar",
    "the label shows a ANIMAL",
    "this was bottle number NUMBER of the night",
    "my brother thinks that FOOD would go with it",
    "the brewery is a ANY place in the north",
)
LISTS = {
    "SIZE": "small large brown green",
    "GLASS": "pint tulip goblet mug",
    "MONTH": "march june october december",
    "NUMBER": "two three seven nine",
    "FOOD": "cheese bread fish chocolate",
    "ANIMAL": "bear wolf fox stag",
}


@dataclasses.dataclass(frozen=True)
class Review:
    """The words of a review, the aspect that each word's sentence rates ("" for none), and the grade of each aspect."""

    words: tuple[str, ...]
    topics: tuple[str, ...]
    grades: dict[str, int]

    def gold(self, aspect: str) -> tuple[bool, ...]:
        """Whether each word is in the sentence of an aspect."""
        return tuple(topic == aspect for topic in self.topics)


def _one_of(chance: random.Random, words: str) -> str:
    several = words.split()
    return several[int(chance.random() * len(several))]


def _graded(chance: random.Random, aspect: str, grade: int) -> str:
    """A word for a grade or, with probability `NEIGHBOUR`, for the grade below or above, if there is one."""
    if chance.random() < NEIGHBOUR:
        grade = min(max(grade + (1 if chance.random() < 0.5 else -1), 0), GRADES - 1)
    return _one_of(chance, (SHARED if chance.random() < 0.5 else OWN[aspect])[grade])


def _rated(chance: random.Random, aspect: str, grade: int) -> list[str]:
    """The sentence of an aspect."""
    words = []
    for word in RATED[int(chance.random() * len(RATED))].split():
        lists = {"NOUN": NOUNS, "FEATURE": FEATURES}.get(word)
        graded = _graded(chance, aspect, grade) if word == "GRADED" else word
        words.append(_one_of(chance, lists[aspect]) if lists else graded)
    return words


def _aside(chance: random.Random) -> list[str]:
    """A sentence that rates nothing."""
    words = []
    for word in OTHER[int(chance.random() * len(OTHER))].split():
        lists = SHARED[int(chance.random() * GRADES)] if word == "ANY" else LISTS.get(word)
        words.append(_one_of(chance, lists) if lists else word)
    return words


def review(chance: random.Random, correlation: float) -> Review:
    """One review; the grades of two aspects have the correlation `correlation`."""
    draw = lambda: int(chance.random() * GRADES)
    common, follows = draw(), correlation**0.5
    grades = {aspect: common if chance.random() < follows else draw() for aspect in ASPECTS}
    sentences = [(aspect, _rated(chance, aspect, grade)) for aspect, grade in grades.items()]
    sentences += [("", _aside(chance)) for _ in range(ASIDES[int(chance.random() * len(ASIDES))])]
    chance.shuffle(sentences)
    words = [(word, topic) for topic, sentence in sentences for word in (*sentence, ".")]
    return Review(tuple(word for word, _ in words), tuple(topic for _, topic in words), grades)


def reviews(split: str, number: int, correlation: float) -> list[Review]:
    """The first `number` reviews of a split, the same in every call; a larger set contains a smaller one."""
    chance = random.Random(f"{SEED}/{split}/{correlation}")
    return [review(chance, correlation) for _ in range(number)]
