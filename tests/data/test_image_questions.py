"""Questions about the pictures of a named set, against the texts and colours of a handmade set."""

import functools
import shutil
from collections import Counter

import handmade_pictures
import numpy as np
import pytest

from attention_research.config import ConfigError
from attention_research.data.captions import Captions
from attention_research.data.image_questions import ImageQuestions
from attention_research.data.words import Words

SPLITS = {"train": "train", "validation": "val", "test": "test"}


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory):
    """(the folder of the handmade set, its texts)."""
    folder = tmp_path_factory.mktemp("handmade") / "tfds"
    return folder, handmade_pictures.write(folder)


@pytest.fixture
def written(data_home, on_disk):
    """split -> {(number of the picture, question in lower case with separate punctuation, answer)}."""
    folder, told = on_disk
    shutil.copytree(folder, data_home / "tfds")
    plain = lambda text: text.lower().replace("?", " ?").replace(",", " ,")
    return {
        split: {(n, plain(q["question"]), q["answer"]) for n, one in enumerate(told[split]) for q in one["questions"]}
        for split in told
    }


def data(kind=ImageQuestions, vocabulary_size=97, **settings):
    given = {"name": "coco_captions", "side": 13, "channels": 3, "max_length": 7} | settings
    tokenizer = functools.partial(Words, vocabulary_size=vocabulary_size)
    return kind(**given, vocabulary_size=vocabulary_size, tokenizer=tokenizer)


def asked(batch, one, split):
    """(number of the picture, question, answer) of each row that is not padding."""
    texts = one.tokenizer.decode(batch["source"].tolist())
    for image, text, label in zip(batch["image"], texts, batch["label"], strict=True):
        if label >= 0:
            number = int(image[0, 0, 1]) // 4
            assert np.all(image == handmade_pictures.colour(split, number))
            yield number, text, one.classes[label]
        else:
            assert not image.any() and not text


@pytest.mark.parametrize("split", SPLITS)
def test_every_question_comes_once_with_its_picture_and_answer(written, split):
    one, known = data(), written[SPLITS[split]]
    # In the validation and test splits, a number that is not in any training question is an unknown word.
    words = {word for _, text, _ in written["train"] for word in text.split()}
    readable = {(n, " ".join(w if w in words else "<unk>" for w in text.split()), a) for n, text, a in known}
    batches = list(one.evaluation_batches(split, 10))
    found = [row for _, batch in batches for row in asked(batch, one, SPLITS[split])]
    assert Counter(found) == Counter(readable) and len(found) == one.sizes()[split] == len(known)
    texts, answers = one.text(split)
    labels = {int(i): label for ids, batch in batches for i, label in zip(ids, batch["label"], strict=True) if i >= 0}
    assert [labels[i] for i in range(len(labels))] == one.labels(split).tolist()
    assert {(text, answer) for text, answer in zip(texts, answers, strict=True)} == {row[1:] for row in known}


def test_training_is_a_function_of_seed_and_step(written):
    one = data().prepare()
    steps = -(-one.sizes()["train"] // 7)
    batches = [batch for _, (_, batch) in zip(range(steps), one.train_batches(3, 7), strict=False)]
    assert Counter(row for batch in batches for row in asked(batch, one, "train")) == Counter(written["train"])
    assert all(np.array_equal(x, data().batch_at(3, 4, 7)[name]) for name, x in batches[4].items())
    (shapes,) = one.train_shapes(7)
    assert {name: x.shape for name, x in batches[0].items()} == shapes
    assert one.classes == tuple(sorted({answer for told in written.values() for _, _, answer in told}))
    assert f"{len(written['train'])} questions" in one.describe()


def test_long_questions_are_left_out_of_training_and_cut_elsewhere(written):
    one = data(max_length=6)  # "is it number 3 ?" has six tokens with its end, "what , then ?" five
    assert one.dropped == 0 and data(max_length=5).dropped == handmade_pictures.SIZES["train"]
    short = data(max_length=5)
    assert set(short.text("train")[0]) == {"what , then ?"} and short.labels("train").max() < len(short.classes)
    assert {len(row[row > 3]) for row in short.arrays("test")["source"]} == {4}


def test_a_set_without_questions_lists_its_features(written, monkeypatch):
    monkeypatch.setattr(ImageQuestions, "feature", "riddles")
    with pytest.raises(ConfigError, match="data.name: coco_captions has no riddles; it has captions, image, questions"):
        data().prepare()
    assert data(Captions, max_length=13).prepare().sizes()["validation"] == handmade_pictures.SIZES["val"]
