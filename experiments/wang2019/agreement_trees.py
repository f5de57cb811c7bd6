"""Generated sentences with their dependency trees, and the number that each of their verbs has to take.

    near the kings , the dog by the rivers that a farmer paint~ often sleep~

After Linzen, Dupoux & Goldberg 2016 (arXiv 1611.01368): a verb agrees with its subject, whatever nouns stand between.
Prepositional phrases and relative clauses of both kinds (its noun their subject, or another) are within one another,
and some verbs have an object. Verbs do not show their number, which is what is asked at each; nouns do. Trees are of
words: the subject, the object and what is said of the event hang on the verb, the article, the preposition and the
relative verb on the noun, the preposition's noun on the preposition.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

PAD, ARTICLE, THAT, COMMA = range(4)
PREPOSITIONS, ADVERBS, VERBS, NOUNS = 3, 2, 8, 12
_PREPOSITION = COMMA + 1
_ADVERB = _PREPOSITION + PREPOSITIONS
_VERB = _ADVERB + ADVERBS
_NOUN = _VERB + VERBS
VOCABULARY = _NOUN + 2 * NOUNS
#: How far phrases and clauses are within one another.
DEPTH = 3


class Sentences(NamedTuple):
    """`heads`: the word above each, -1 above the main verb and for padding. At a verb `plural` is 0 or 1 and `distance`
    how many words its subject stands before it, elsewhere -1 and 0; `attracted`: the nearest noun before the verb is of
    the other number."""

    tokens: Int[np.ndarray, "B T"]
    heads: Int[np.ndarray, "B T"]
    plural: Int[np.ndarray, "B T"]
    distance: Int[np.ndarray, "B T"]
    attracted: Bool[np.ndarray, "B T"]


@dataclass(eq=False)
class Word:
    """A word with what hangs on it to either side; of a verb also its subject."""

    token: int
    left: list[Word] = field(default_factory=list)
    right: list[Word] = field(default_factory=list)
    subject: Word | None = None

    def inside(self) -> Iterator[Word]:
        """This word and all below it, as they are read."""
        for child in self.left:
            yield from child.inside()
        yield self
        for child in self.right:
            yield from child.inside()


def is_noun(token: int) -> bool:
    return token >= _NOUN


def is_plural(token: int) -> bool:
    """Of a noun."""
    return token >= _NOUN + NOUNS


def noun_phrase(chance: random.Random, depth: int, modified: float = 0.6) -> Word:
    """An article, a noun and, with that probability where `depth` allows, a phrase or a clause behind it."""
    noun = Word(_NOUN + chance.randrange(2 * NOUNS), [Word(ARTICLE)])
    if depth < DEPTH and chance.random() < modified:
        kind = chance.choice(("phrase", "its own", "another's"))
        if kind == "phrase":
            noun.right.append(prepositional(chance, depth + 1))
        elif kind == "its own":
            verb = Word(_VERB + chance.randrange(VERBS), [Word(THAT)], [noun_phrase(chance, depth + 1)], noun)
            noun.right.append(verb)
        else:
            subject = noun_phrase(chance, depth + 1)
            noun.right.append(Word(_VERB + chance.randrange(VERBS), [Word(THAT), subject], [], subject))
    return noun


def prepositional(chance: random.Random, depth: int) -> Word:
    """A preposition with its noun."""
    return Word(_PREPOSITION + chance.randrange(PREPOSITIONS), [], [noun_phrase(chance, depth)])


def sentence(chance: random.Random, objects: float = 0.3) -> Word:
    """The main verb of a sentence; `objects` is how probable its object is."""
    subject = noun_phrase(chance, 0, modified=0.75)
    verb = Word(_VERB + chance.randrange(VERBS), subject=subject)
    if chance.random() < 0.25:
        verb.left += [prepositional(chance, 1), Word(COMMA)]
    verb.left.append(subject)
    if chance.random() < 0.25:
        verb.left.append(Word(_ADVERB + chance.randrange(ADVERBS)))
    if chance.random() < objects:
        verb.right.append(noun_phrase(chance, 1))
    return verb


def as_row(root: Word) -> list[tuple[int, int, int, int, bool]]:
    """(token, head, plural, distance, attracted) of each word as it is read."""
    words = list(root.inside())
    place = {id(word): number for number, word in enumerate(words)}
    heads = {id(child): place[id(word)] for word in words for child in (*word.left, *word.right)}
    row, last = [], ARTICLE
    for word in words:
        plural, distance, attracted = -1, 0, False
        if word.subject is not None:
            plural, distance = int(is_plural(word.subject.token)), place[id(word)] - place[id(word.subject)]
            attracted = is_plural(last) != bool(plural)
        row.append((word.token, heads.get(id(word), -1), plural, distance, attracted))
        last = word.token if is_noun(word.token) else last
    return row


def generate(count: int, max_length: int, seed: int, lost: float = 0.0) -> Sentences:
    """Sentences of at most that many words; of their words a share `lost`, drawn by chance, hangs on the main verb
    instead of its head, as where a parser fails."""
    chance = random.Random(f"agreement {seed}")
    rows: list[list[tuple[int, int, int, int, bool]]] = []
    while len(rows) < count:
        row = as_row(sentence(chance))
        if len(row) <= max_length:
            rows.append(row)
    table = np.full((count, max_length, 5), (PAD, -1, -1, 0, 0), np.int32)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    tokens, heads, plural, distance, attracted = np.moveaxis(table, 2, 0)
    root = np.argmax((heads < 0) & (tokens != PAD), axis=1)[:, None]
    drawn = np.random.default_rng(seed).random(heads.shape) < lost
    return Sentences(tokens, np.where(drawn & (heads >= 0), root, heads), plural, distance, attracted.astype(bool))
