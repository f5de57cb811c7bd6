"""Generated sentences with their dependency trees and the grammatical number of each verb.

    near the kings , the dog by the rivers that a farmer paint~ often sleep~

The task follows Linzen, Dupoux & Goldberg 2016 (arXiv 1611.01368): a verb agrees with its subject, whatever nouns are
between them. Prepositional phrases and relative clauses are nested. The noun before a relative clause is the subject
of the clause or not. Some verbs have an object. Nouns show their number; verbs do not, and their number is the label.
Trees are over words. The subject, the object and modifiers of the event depend on the verb. The article, the
preposition and the relative verb depend on the noun, and the noun of a preposition depends on the preposition.
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
#: The largest nesting depth of phrases and clauses.
DEPTH = 3


class Sentences(NamedTuple):
    """Sentences with trees and labels.

    `heads` is the position of the head of each word, and -1 for the main verb and padding. At a verb, `plural` is 0 or
    1 and `distance` is the number of words from its subject to the verb; elsewhere they are -1 and 0. `attracted` marks
    verbs whose nearest preceding noun has the other number.
    """

    tokens: Int[np.ndarray, "B T"]
    heads: Int[np.ndarray, "B T"]
    plural: Int[np.ndarray, "B T"]
    distance: Int[np.ndarray, "B T"]
    attracted: Bool[np.ndarray, "B T"]


@dataclass(eq=False)
class Word:
    """A word with its dependents on either side and, for a verb, its subject."""

    token: int
    left: list[Word] = field(default_factory=list)
    right: list[Word] = field(default_factory=list)
    subject: Word | None = None

    def inside(self) -> Iterator[Word]:
        """Yields this word and all its descendants in reading order."""
        for child in self.left:
            yield from child.inside()
        yield self
        for child in self.right:
            yield from child.inside()


def is_noun(token: int) -> bool:
    return token >= _NOUN


def is_plural(token: int) -> bool:
    """Whether a noun is plural."""
    return token >= _NOUN + NOUNS


def noun_phrase(chance: random.Random, depth: int, modified: float = 0.6) -> Word:
    """An article, a noun and, with probability `modified` if `depth` allows it, a phrase or a clause after the noun."""
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
    """Draws a sentence and returns its main verb. `objects` is the probability of an object."""
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
    """Returns (token, head, plural, distance, attracted) of each word in reading order."""
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
    """Generates sentences of at most `max_length` words.

    A random share `lost` of words depends on the main verb instead of its head, to simulate errors of a parser.
    """
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
