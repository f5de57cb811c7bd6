"""Sentences with blanks: the word marked by gold determines the answer, read with separately written rules."""

import random

import pytest

from attention_research.config import build, resolve
from attention_research.data import blanks


@pytest.mark.parametrize("phrases", [0, 1, 4])
def test_the_gold_word_decides_the_answer(phrases):
    chance, verbs, distractors = random.Random(phrases), set(), set()
    for _ in range(60):
        source, target = blanks.sentence(chance, phrases)
        words, (verb, pronoun, article), gold = source.split(), target.split(), blanks.gold(source)
        assert [words[gold[link][0]] for link in blanks.LINKS] == ["_"] * 3 and words.count("_") == 3
        assert verb == ("were" if words[gold["syntax"][1]].endswith("s") else "was")
        assert pronoun == ("she" if words[gold["entity"][1]] in {"anna", "carol", "ruth", "emma"} else "he")
        assert article == ("an" if words[gold["local"][1]][0] in "aeiou" else "a")
        assert gold["entity"][1] == 0 and words[gold["syntax"][1] - 1] == "the" and len(words) == 13 + 3 * phrases
        nouns = [word for word in words[4 : gold["syntax"][0]] if word.rstrip("s") in blanks.OTHERS]
        assert len(nouns) == phrases
        verbs.add(verb)
        distractors |= {(verb, noun.endswith("s")) for noun in nouns}
    assert verbs == {"was", "were"} and len(distractors) == (4 if phrases else 0)


def test_the_data_has_gold_and_alternating_numbers_of_phrases(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path))
    given = {
        "max_length": 32, "vocabulary_size": 64, "model": {"kind": "recurrent_language_model", "width": 12},
        "data": {"kind": "blanks", "max_phrases": 2, "train_examples": 200, "batching": {"boundaries": (32,)}},
        "training": {"steps": 1, "batch_size": 4, "learning_rate": 1.0},
    }  # fmt: skip
    data = build(resolve(given).resolved["data"], "data")().prepare()
    sources, targets = data.text("test")
    assert [len(source.split()) for source in sources[:6]] == [13, 16, 19] * 2 and len(targets[0].split()) == 3
    assert data.gold(sources[1]) == blanks.gold(sources[1])
    tokens = data.tokenizer.encode([sources[1]])[0]
    assert data.tokenizer.decode([[t for t in tokens if t != 2]]) == [sources[1]]


def test_every_setting_changes_the_text():
    def text(**settings):
        return blanks.Sentences(**{"max_phrases": 3, "train_examples": 20, **settings}).text("train")

    assert text() == text() and len({str(text(**one)) for one in ({}, {"max_phrases": 2}, {"train_examples": 9})}) == 3
