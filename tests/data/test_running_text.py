"""The Brown corpus against its known counts, and running text: every token once, in order, with its history."""

import io
import itertools
import random
import tarfile
from collections import Counter
from functools import partial

import numpy as np
import pytest

from attention_research.config import ConfigError
from attention_research.data import brown, sources
from attention_research.data.running_text import RunningText
from attention_research.data.words import Words
from attention_research.tasks.floors import ngram_floors
from attention_research.tokens import UNKNOWN

LENGTH, CONTEXT, BATCH = 7, 5, 4
SIZES = {"train": 23, "validation": 5, "test": 7}


@pytest.fixture
def text(data_home):
    """Texts of 1 to 30 words in place of wiki40b/en. One frequent word occurs in the test split only."""
    import tensorflow_datasets as tfds

    chance = random.Random(7)
    word = lambda: "".join(chance.choices("abcdefgh", k=chance.randint(1, 2)))
    made = {
        split: [{"text": " ".join(word() for _ in range(chance.randint(1, 30))).encode()} for _ in range(size)]
        for split, size in SIZES.items()
    }
    made["test"].append({"text": b"only here only here only here only"})
    with tfds.testing.mock_data(as_data_source_fn=lambda self, split, **options: made[split]):
        yield {split: " ".join(one["text"].decode() for one in made[split]).split() for split in made}


def running(**settings):
    """`RunningText` as built from a config."""
    tokenizer = partial(Words, minimum_count=4, vocabulary_size=97)
    given = {"name": "wiki40b/en", "max_length": LENGTH, "context": CONTEXT, "vocabulary_size": 97} | settings
    return RunningText(**given, tokenizer=tokenizer)


@pytest.fixture
def data(text):
    return running().prepare()


def test_the_stream_is_the_text_and_the_vocabulary_that_of_all_splits(data, text):
    counts = Counter(itertools.chain(*text.values()))
    known = {word for word, count in counts.items() if count > 3}
    assert set(data.tokenizer.words) == known and "only" in known - set(text["train"]) and len(known) < len(counts)
    for split, words in text.items():
        expected = [word if word in known else "<unk>" for word in words]
        assert data.tokenizer.decode([data.stream(split)]) == [" ".join(expected)]
        assert (data.stream(split) == UNKNOWN).sum() == expected.count("<unk>") > 0
        np.testing.assert_array_equal(data.target_tokens(split), data.stream(split))
        assert len(data.target_sentences(split)) == 1
    np.testing.assert_array_equal(data.target_counts()[: UNKNOWN + 1], [0, 0, 0, (data.stream("train") == 3).sum()])


def rows(batches):
    return [row for ids, batch in batches for row in zip(ids, batch["source"], batch["target"], strict=True)]


def test_evaluation_reads_every_token_once_after_its_history(data):
    for split in SIZES:
        stream, place = data.stream(split).tolist(), 0
        for number, source, target in rows(data.evaluation_batches(split, BATCH)):
            if number < 0:
                assert not target.any()
                continue
            before, after = stream[max(place - CONTEXT, 0) : place], stream[place : place + LENGTH]
            assert number == place // LENGTH and source.tolist() == before + [0] * (CONTEXT - len(before))
            assert target.tolist() == after + [0] * (LENGTH - len(after))
            place += LENGTH
        assert len(stream) % LENGTH and place >= len(stream)
        assert data.sizes()[split] == place // LENGTH
    some = {n for n, *_ in rows(data.evaluation_batches("test", 2, examples=3)) if n >= 0}
    assert len(some) == 3 and len(data.target_sentences("test", 3)) == 3


def test_an_epoch_has_every_row_once_in_its_own_order(data):
    count = data.sizes()["train"]
    whole = {number: (s.tolist(), t.tolist()) for number, s, t in rows(data.evaluation_batches("train", 1))}
    steps = [data.batch_at(5, step, 1) for step in range(2 * count)]
    seen = [(batch["source"][0].tolist(), batch["target"][0].tolist()) for batch in steps]
    first, second = seen[:count], seen[count:]
    key = lambda one: sorted(map(str, one))
    assert key(first) == key(second) == key(whole.values()) and first != second != list(whole.values())
    batch = data.batch_at(5, 2, 6)
    parts = [running().prepare().batch_at(5, 2, 6, host, 3) for host in range(3)]
    for name, array in batch.items():
        np.testing.assert_array_equal(array, np.concatenate([part[name] for part in parts]))
        assert array.dtype == np.int32 and array.shape == data.train_shapes(6)[0][name]
    with pytest.raises(ConfigError, match=r"^training.batch_size: 6 rows do not divide over 4 hosts$"):
        data.batch_at(5, 2, 6, 0, 4)


def test_each_setting_changes_the_batches(data):
    assert running(max_length=5).train_shapes(2) == [{"source": (2, CONTEXT), "target": (2, 5)}]
    assert running(context=0).prepare().batch_at(5, 0, 2)["source"].shape == (2, 0)
    source, target = data.text("test")
    assert len(source) == len(target) == data.sizes()["test"] and source[0] == ""
    assert " ".join(target) == data.tokenizer.decode([data.stream("test")])[0]
    assert data.describe() == f"wiki40b/en · {len(data.stream('train')):,} tokens · vocabulary of {data.tokenizer.size}"
    with pytest.raises(ConfigError, match=r"^wiki40b/en has no split 'dev'; it has train"):
        data.stream("dev")
    with pytest.raises(ConfigError, match=r"^data.name: digit_images is not a set of texts; "):
        running(name="digit_images")


def packed(folder, members):
    path = folder / "made.tgz"
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def test_tags_end_at_the_last_slash_and_texts_are_in_order(tmp_path):
    members = {
        "cb01": b"\n\n\tand/or/cc ./.\n",
        "ca02": b"The/at\nn'est/fw-bez pas/fw-* caf\xe9/nn",
        "cats.txt": b"x/y",
        "ca01": b"``/`` 1/2/cd",
    }
    assert list(brown.texts(packed(tmp_path, members))) == [
        ("ca01", ["``", "1/2"]), ("ca02", ["The", "n'est", "pas", "caf\xe9"]), ("cb01", ["and/or", "."])
    ]  # fmt: skip


def test_splits_end_at_their_tokens(monkeypatch):
    monkeypatch.setattr(brown, "TRAIN", 4)
    monkeypatch.setattr(brown, "VALIDATION", 3)
    named = [("a", list("bcd")), ("e", list("fghij")), ("k", list("lm"))]
    assert brown.divided(iter(named)) == {
        "train": [("a", "b c d"), ("e", "f")], "validation": [("e", "g h i")], "test": [("e", "j"), ("k", "l m")]
    }  # fmt: skip
    assert brown.divided(iter([("a", list("bcdefghij"))])) == {
        "train": [("a", "b c d e")], "validation": [("a", "f g h")], "test": [("a", "i j")]
    }  # fmt: skip


@pytest.mark.data
@pytest.mark.slow  # reads the corpus, and downloads it once
def test_the_brown_corpus_has_its_published_counts():
    """1,161,192 tokens in 500 texts and 56,057 words: the counts of NLTK's copy."""
    sources.prepare("brown/words")
    names, words = [], {}
    for split in SIZES:
        there = sources.open_split("brown/words", split)
        names += [one["name"] for one in there]
        words[split] = [word for one in there for word in one["text"].split()]
    assert len(set(names)) == 500 and names == sorted(names)
    assert [len(of) for of in words.values()] == [800_000, 200_000, 161_192]
    assert words["train"][:9] == "The Fulton County Grand Jury said Friday an investigation".split()
    counts = Counter(itertools.chain(*words.values()))
    assert len(counts) == 56_057 and sum(count > 3 for count in counts.values()) == 17_904
    data = RunningText(name="brown/words", max_length=32, context=4, vocabulary_size=17_908,
                       tokenizer=partial(Words, minimum_count=4, vocabulary_size=17_908)).prepare()  # fmt: skip
    assert data.tokenizer.size == 17_908 and round(100 * np.mean(data.stream("test") == UNKNOWN), 2) == 4.39
    floors = ngram_floors(data, "test", None)
    assert floors["trigram"]["perplexity"] == pytest.approx(332.6, abs=0.1)
