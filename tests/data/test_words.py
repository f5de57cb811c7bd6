"""The vocabulary of whole tokens: ids by frequency, round trip, unknown tokens, one file for one text."""

import collections
from functools import partial

import pytest

from attention_research.analysis.attention import labels
from attention_research.config import ConfigError
from attention_research.data.batching import Buckets
from attention_research.data.pairs import PairData
from attention_research.data.tokenizer import SentencePiece
from attention_research.data.words import Words

LINES = ["c a t", "K AE T", "a ' s", "AH a t", "t T a"]


@pytest.fixture
def words(data_home):
    return Words(vocabulary_size=31).fit(LINES)


def test_ids_go_by_frequency_then_by_the_alphabet(words):
    """Counted by hand: a 4, t 3, T 2, then ' AE AH K c s once each."""
    assert words.encode(["a t T ' AE AH K c s"]) == [[4, 5, 6, 7, 8, 9, 10, 11, 12, 2]]
    counts = collections.Counter(" ".join(LINES).split())
    assert words.size == 4 + len(counts) == 13


def test_round_trip_and_special_tokens(words):
    assert words.decode(words.encode(LINES)) == LINES
    assert words.encode([""]) == [[2]] and words.decode([[], [2, 4], [1, 4, 0, 5, 2, 6]]) == ["", "", "a t"]


def test_missing_tokens_become_the_unknown_token(words):
    (ids,) = words.encode(["c ж t"])
    assert ids == [11, 3, 5, 2] and words.decode([ids]) == ["c <unk> t"]


def test_spaces_of_any_kind_are_one(words):
    assert words.encode(["  a\tt \n T "]) == words.encode(["a t T"])


def test_the_size_and_the_least_count_bound_it(data_home):
    few = Words(vocabulary_size=6).fit(LINES)
    assert few.size == 6 and few.encode(["a t T"]) == [[4, 5, 3, 2]]
    twice = Words(vocabulary_size=31, minimum_count=2).fit(LINES)
    assert twice.size == 7 and twice.encode(["a t T s"]) == [[4, 5, 6, 3, 2]]


def test_ids_beyond_the_words_are_left_out(words):
    assert words.decode([[30, 4, 13]]) == ["a"] and words.pieces([4, 13, 2, 3]) == ["▁a", "[13]", "</s>", "<unk>"]


def test_labels_in_pictures_are_whole_words(words):
    assert labels(words, words.encode(["' a ж"])[0]) == ["'", "a", "<unk>", "</s>"]


def test_it_is_stored_as_text_once_for_one_text(words, data_home, monkeypatch):
    assert words.path.parent == data_home / "tokenizers"
    assert words.path.read_text().split() == ["a", "t", "T", "'", "AE", "AH", "K", "c", "s"]
    with monkeypatch.context() as patch:
        patch.setattr(Words, "_chosen", lambda *_: pytest.fail("counted again"))
        again = Words(vocabulary_size=31).fit(list(LINES))
    loaded = Words(vocabulary_size=31).load(words.path)
    assert again.path == words.path and {one.fingerprint for one in (words, again, loaded)} == {words.fingerprint}
    assert loaded.decode(loaded.encode(LINES)) == LINES
    others = [
        Words(vocabulary_size=30).fit(LINES),
        Words(vocabulary_size=31, minimum_count=2).fit(LINES),
        Words(vocabulary_size=31).fit(LINES[1:]),
        SentencePiece(vocabulary_size=31).fit(LINES),
    ]
    assert len({words.path, *(other.path for other in others)}) == 5
    assert others[2].fingerprint != words.fingerprint


@pytest.mark.parametrize("settings", [{"vocabulary_size": 4}, {"vocabulary_size": 31, "minimum_count": 9}])
def test_no_token_at_all_is_one_line(data_home, settings):
    with pytest.raises(ConfigError, match=r"^vocabulary_size: [^\n]+ words, [^\n]+: none is left$"):
        Words(**settings).fit(LINES)


def test_pairs_are_read_through_it(made_up):
    """A training step gets the words of the training split, and unknown words of the others."""
    data = PairData(
        name="wmt14_translate/fr-en", source_language="fr", target_language="en", max_length=61, vocabulary_size=97,
        tokenizer=partial(Words, vocabulary_size=97), batching=partial(Buckets, max_length=61),
    ).prepare()  # fmt: skip
    text = [side for sides in made_up["train"] for side in (sides["fr"].decode(), sides["en"].decode())]
    counts = collections.Counter(word for line in text for word in line.split())
    frequent = min(counts, key=lambda word: (-counts[word], word))
    assert data.tokenizer.size == 97 and data.tokenizer.decode([[4]]) == [frequent]
    sources, targets = data.text("train")
    ids, batch = next(data.evaluation_batches("train", 5, examples=5))
    for row, example in enumerate(ids):
        for name, sentences in (("source", sources), ("target", targets)):
            expected = data.tokenizer.decode(data.tokenizer.encode([sentences[example]]))[0]
            assert data.tokenizer.decode([batch[name][row]]) == [expected]
