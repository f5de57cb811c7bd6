"""Generated sentences with a translation and its gold word alignment, which real text does not have.

The source has English words in a small grammar; the target has French-like words with regular endings. Nouns have a
gender, with which determiners and adjectives agree across the words in between. Verbs agree with their subject in
number. Some words are translated by two words. Word frequencies follow Zipf's law: the second word of a list is half as
likely as the first. A score measures whether a model finds the words to translate in the correct order; it says nothing
about French.

The same sentences are translated in three orders:

    monotone    the order of the source: "the big dog often sleeps" -> "le grand chien souvent se couche"
    local       adjectives after their noun, the closest first, and adverbs after their verb
    reversed    the whole sentence reversed, word by word (the two words of a translation stay in order)

A link i-j of an alignment means that target word j translates source word i, both counted from 0. Every word of both
sides has one link; a source word that is translated by two words has two.
"""

import bisect
import functools
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from attention_research.data import by_hash

SEED, SENTENCES = 1704, 20_000
ORDERS = ("monotone", "local", "reversed")
#: The smallest and the largest number of words of a source sentence.
SHORT, LONG = (4, 20), (4, 60)
#: In sets with names, the fraction of noun phrases that are names, and the number of names.
NAME_SHARE, NAMES = 0.25, 2_000

Links = tuple[tuple[int, int], ...]
#: English, stem of the translation ("se " before it: two words), gender
_NOUNS = """dog chien m, house maison f, king roi m, city ville f, garden jardin m, letter lettre f, soldier soldat m,
ship navire m, tower tour f, road route f, bird merle m, tree arbre m, queen reine f, farmer paysan m, lamp lampe f,
stone pierre f, book livre m, song chanson f, cloud nuage m, field champ m, horse cheval m, star etoile f,
river riviere f, window fenetre f"""
_ADJECTIVES = """small petit, big grand, green vert, black noir, short court, heavy lourd, slow lent, bright clair,
cold froid, warm chaud, round rond, brown brun"""
_WITH_OBJECT = """follow suiv, find trouv, watch regard, help aid, remember se-rappel, visit visit, open ouvr,
close ferm, clean lav, trust se-fi"""
_ALONE = "walk march, sing chant, sleep se-couch, laugh rigol, work travaill, hurry se-press"
#: English, masculine, feminine, plural; a missing form is a dash.
_DETERMINERS = """the le la les, a un une -, some - - des, my mon ma mes, this ce cette -, these - - ces,
every chaque chaque -"""
_ADVERBS = "often souvent, now maintenant, here ici, slowly lentement"
_PREPOSITIONS = "with avec, near pres-de, in dans, under sous, behind derriere"
_CONJUNCTIONS = "and et, but mais, while pendant-que, because car"


@dataclass(frozen=True)
class Word:
    """A source word, its translation, and whether the local order moves it."""

    source: str
    target: tuple[str, ...]
    moves: bool = False


@dataclass(frozen=True)
class Sentence:
    """A sentence, its translation, and its alignment: links (source, target), sorted."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: Links


def _table(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(entry.split()) for entry in " ".join(text.split()).split(", "))


NOUNS, ADJECTIVES, DETERMINERS = _table(_NOUNS), _table(_ADJECTIVES), _table(_DETERMINERS)
VERBS = {True: _table(_WITH_OBJECT), False: _table(_ALONE)}
ADVERBS, PREPOSITIONS, CONJUNCTIONS = _table(_ADVERBS), _table(_PREPOSITIONS), _table(_CONJUNCTIONS)
_SYLLABLES = "ba do fe gu ka lo mi nu pa re si to va zu".split()


@functools.cache
def _sums(count: int) -> list[float]:
    return list(itertools.accumulate(1 / rank for rank in range(1, count + 1)))


def _zipf(chance: random.Random, count: int) -> int:
    """A random number below `count`; i has the weight 1 / (i + 1)."""
    sums = _sums(count)
    return bisect.bisect(sums, chance.random() * sums[-1], hi=count - 1)


def _drawn(chance: random.Random, items: Sequence[Any]) -> Any:
    return items[_zipf(chance, len(items))]


def _noun_phrase(chance: random.Random, names: bool) -> tuple[list[Word], bool]:
    """(words, whether it is plural): a determiner, up to two adjectives, a noun; or a name, which is not translated."""
    if names and chance.random() < NAME_SHARE:
        name = _name(_zipf(chance, NAMES))
        return [Word(name, (name,))], False
    plural = chance.random() < 0.4
    noun, stem, gender = _drawn(chance, NOUNS)
    form = {"m": 1, "f": 2}[gender] if not plural else 3
    fitting = [determiner for determiner in DETERMINERS if determiner[form] != "-"]
    determiner = _drawn(chance, fitting)
    ending = "e" * (gender == "f") + "s" * plural
    count = int(chance.random() * 5) // 2
    adjectives = [_drawn(chance, ADJECTIVES) for _ in range(count)]
    return [
        Word(determiner[0], (determiner[form],)),
        *(Word(adjective, (stem + ending,), moves=True) for adjective, stem in adjectives),
        Word(noun + "s" * plural, (stem + "s" * plural,)),
    ], plural


def _name(number: int) -> str:
    """The name with the given number, written as four of fourteen syllables."""
    digits = [number // len(_SYLLABLES) ** place % len(_SYLLABLES) for place in range(4)]
    return "".join(_SYLLABLES[digit] for digit in digits).capitalize()


def _plain(entry: tuple[str, ...], moves: bool = False) -> Word:
    return Word(entry[0], tuple(entry[1].split("-")), moves)


def _clause(chance: random.Random, names: bool) -> list[Word]:
    """A subject, optionally an adverb, a verb, optionally an object."""
    subject, plural = _noun_phrase(chance, names)
    adverb = [_plain(_drawn(chance, ADVERBS), moves=True)] if chance.random() < 0.3 else []
    with_object = chance.random() < 0.6
    verbs = VERBS[with_object]
    verb, stem = _drawn(chance, verbs)
    ending = "ent" if plural else "e"
    said = Word(verb if plural else f"{verb}s", tuple(f"{stem}{ending}".split("-")))
    return [*subject, *adverb, said, *(_noun_phrase(chance, names)[0] if with_object else [])]


def _words(chance: random.Random, shortest: int, longest: int, names: bool) -> list[Word]:
    """Clauses and prepositional phrases with a random length from `shortest` to `longest`, or slightly more."""
    wanted = shortest + int(chance.random() * (longest - shortest + 1))
    words = _clause(chance, names)
    while len(words) < wanted:
        if chance.random() < 0.5:
            words += [_plain(_drawn(chance, PREPOSITIONS)), *_noun_phrase(chance, names)[0]]
        else:
            words += [_plain(_drawn(chance, CONJUNCTIONS)), *_clause(chance, names)]
    return words


def reading_order(words: Sequence[Word], order: str) -> list[int]:
    """The indices of the source words in the order in which they are translated."""
    if order == "monotone":
        return list(range(len(words)))
    if order == "reversed":
        return list(range(len(words) - 1, -1, -1))
    read: list[int] = []
    waiting: list[int] = []
    for index, word in enumerate(words):
        if word.moves:
            waiting.append(index)
        else:
            # The waiting words follow the next word that does not move.
            read += [index, *reversed(waiting)]
            waiting = []
    return [*read, *waiting]


def translated(words: Sequence[Word], order: str) -> Sentence:
    """The sentence with its translation in the given order."""
    target: list[str] = []
    links = []
    for index in reading_order(words, order):
        links += [(index, len(target) + place) for place in range(len(words[index].target))]
        target += words[index].target
    return Sentence(tuple(word.source for word in words), tuple(target), tuple(sorted(links)))


def sentences(
    order: str, *, lengths: tuple[int, int] = SHORT, names: bool = False, count: int | None = None
) -> Iterator[Sentence]:
    """`count` (`SENTENCES`) different sentences of the given lengths, the same in every call and in every order."""
    chance = random.Random(SEED)
    seen: set[tuple[str, ...]] = set()
    shortest, longest = lengths
    while len(seen) < (SENTENCES if count is None else count):
        words = _words(chance, shortest, longest, names)
        sentence = translated(words, order)
        if shortest <= len(words) <= longest and sentence.source not in seen:
            seen.add(sentence.source)
            yield sentence


def split_of(source: Sequence[str]) -> str:
    """The split of a sentence: MD5 modulo 20 is 0 for test, 1 for validation; the same in every order."""
    return by_hash.split_of(" ".join(source))
