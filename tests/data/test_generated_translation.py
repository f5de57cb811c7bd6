"""Generated translations: sentences by hand, agreement and order in all of them, gold links through the builder."""

import itertools

import pytest

from attention_research.data import generated_translation, names, sources
from attention_research.data import reordering_grammar as grammar
from attention_research.data.reordering_grammar import Word, translated

#: "these small black dogs often hurry near a queen"
BY_HAND = [
    Word("these", ("ces",)),
    Word("small", ("petits",), moves=True),
    Word("black", ("noirs",), moves=True),
    Word("dogs", ("chiens",)),
    Word("often", ("souvent",), moves=True),
    Word("hurry", ("se", "pressent")),
    Word("near", ("pres", "de")),
    Word("a", ("une",)),
    Word("queen", ("reine",)),
]
TRANSLATED = {
    "monotone": (
        "ces petits noirs chiens souvent se pressent pres de une reine",
        "0-0 1-1 2-2 3-3 4-4 5-5 5-6 6-7 6-8 7-9 8-10",
    ),
    "local": (
        "ces chiens noirs petits se pressent souvent pres de une reine",
        "0-0 1-3 2-2 3-1 4-6 5-4 5-5 6-7 6-8 7-9 8-10",
    ),
    "reversed": (
        "reine une pres de se pressent souvent chiens noirs petits ces",
        "0-10 1-9 2-8 3-7 4-6 5-4 5-5 6-2 6-3 7-1 8-0",
    ),
}


@pytest.mark.parametrize("order", grammar.ORDERS)
def test_the_orders_by_hand(order):
    sentence = translated(BY_HAND, order)
    target, links = TRANSLATED[order]
    assert " ".join(sentence.target) == target and generated_translation.written(sentence.links) == links
    assert generated_translation.read(links) == sentence.links
    assert " ".join(sentence.source) == "these small black dogs often hurry near a queen"


@pytest.fixture(scope="module")
def made():
    """order -> 400 sentences."""
    return {order: list(grammar.sentences(order, count=400)) for order in grammar.ORDERS}


def test_sentences_are_distinct_and_reproducible(made):
    again = list(grammar.sentences("local", count=400))
    assert again == made["local"] and len({sentence.source for sentence in again}) == 400
    assert {len(sentence.source) for sentence in again} <= set(range(4, 21))
    assert {grammar.split_of(sentence.source) for sentence in again} == {"train", "validation", "test"}
    for sentences in zip(*made.values(), strict=True):
        assert len({sentence.source for sentence in sentences}) == 1


def dictionary():
    """English word -> the set of its possible translations, from the lists alone."""
    words = {}
    add = lambda english, *french: words.setdefault(english, set()).add(french)
    for english, stem, _ in grammar.NOUNS:
        add(english, stem)
        add(f"{english}s", f"{stem}s")
    for english, stem in grammar.ADJECTIVES:
        for ending in ("", "e", "s", "es"):
            add(english, stem + ending)
    for verbs in grammar.VERBS.values():
        for english, stem in verbs:
            add(f"{english}s", *f"{stem}e".split("-"))
            add(english, *f"{stem}ent".split("-"))
    for english, *forms in grammar.DETERMINERS:
        for form in forms:
            add(english, form)
    for english, french in (*grammar.ADVERBS, *grammar.PREPOSITIONS, *grammar.CONJUNCTIONS):
        add(english, *french.split("-"))
    return words


@pytest.mark.parametrize("order", grammar.ORDERS)
def test_the_gold_links_join_words_of_the_dictionary(made, order):
    """The target words linked to a source word, in order, are one of its translations.

    Each target word has one link.
    """
    words = dictionary()
    for sentence in made[order]:
        assert sorted(target for _, target in sentence.links) == list(range(len(sentence.target)))
        for source, word in enumerate(sentence.source):
            linked = tuple(sentence.target[t] for s, t in sentence.links if s == source)
            assert linked in words[word], (word, linked)


def test_both_vocabularies_are_small_and_share_no_word(made):
    words = dictionary()
    target = {one for translations in words.values() for translation in translations for one in translation}
    assert not words.keys() & target and 60 <= len(words) <= 200 and 60 <= len(target - {"-"}) <= 200


def test_determiners_adjectives_and_nouns_agree(made):
    """Between a determiner and its noun all words have the noun's gender and number (monotone order)."""
    nouns = {stem + "s" * plural: (gender, plural) for _, stem, gender in grammar.NOUNS for plural in (False, True)}
    stems = {stem for _, stem in grammar.ADJECTIVES}
    forms = {}
    for _, masculine, feminine, plural in grammar.DETERMINERS:
        for form, kind in ((masculine, ("m", False)), (feminine, ("f", False)), (plural, ("mf", True))):
            forms.setdefault(form, set()).add(kind)
    checked = 0
    for sentence in made["monotone"]:
        adjectives, determiner = [], None
        for word in sentence.target:
            if word in nouns:
                gender, plural = nouns[word]
                assert any(gender in genders and number == plural for genders, number in forms[determiner])
                ending = "e" * (gender == "f") + "s" * plural
                assert all(one.removesuffix(ending) in stems for one in adjectives), (adjectives, word)
                checked += len(adjectives)
                adjectives = []
            elif word in forms:
                determiner = word
            elif any(word.startswith(stem) and len(word) - len(stem) < 3 for stem in stems):
                adjectives.append(word)
    assert checked > 300


def test_frequencies_follow_zipfs_law(made):
    """Nouns in the order of the list: the first is 1.5 to 3 times as frequent as the second, and the last is rare."""
    counts = dict.fromkeys((english for english, *_ in grammar.NOUNS), 0)
    for sentence in made["local"]:
        for word in sentence.source:
            singular = word if word in counts else word.removesuffix("s")
            if singular in counts:
                counts[singular] += 1
    first, second, *_, last = counts.values()
    assert 1.5 < first / second < 3 and last < first / 10


def test_long_sentences_and_names():
    long = list(grammar.sentences("reversed", lengths=grammar.LONG, count=60))
    assert max(len(sentence.source) for sentence in long) > 40
    named = list(grammar.sentences("local", names=True, count=100))
    rare = {word for sentence in named for word in sentence.source if word.istitle()}
    assert len(rare) > 30
    for sentence in named:
        copied = {(s, t) for s, t in sentence.links if sentence.source[s] in rare}
        assert all(sentence.source[s] == sentence.target[t] for s, t in copied)
    assert len({grammar._name(number) for number in range(grammar.NAMES)}) == grammar.NAMES


def test_the_data_set(data_home, monkeypatch):
    """Built by the builder: sentences with their links, in the splits of their sources, `gold` in the texts' order."""
    monkeypatch.setattr(grammar, "SENTENCES", 200)
    counts = sources.prepare_dataset("generated_translation/local", lambda line: None)
    expected = {split: {} for split in counts}
    for sentence in itertools.islice(grammar.sentences("local"), 200):
        expected[grammar.split_of(sentence.source)][" ".join(sentence.source)] = sentence
    assert counts == {split: len(made) for split, made in expected.items()} and min(counts.values()) > 0
    assert set(sources.languages("generated_translation/local")) == {"source", "target", "alignment"}
    for split, made in expected.items():
        gold = generated_translation.gold("generated_translation/local", split)
        for example, links in zip(sources.open_split("generated_translation/local", split), gold, strict=True):
            sentence = made[example["source"]]
            assert example["target"] == " ".join(sentence.target) and links == sentence.links


def test_every_config_has_a_name():
    known = {name.split("/")[1] for name in names.OWN if name.startswith("generated_translation/")}
    assert known == set(generated_translation.CONFIGS)
