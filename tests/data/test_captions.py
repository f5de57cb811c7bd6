"""Captions of a named set, against the texts and colours of a handmade set."""

import functools
import re
import shutil
from collections import Counter

import handmade_pictures
import numpy as np
import pytest

from attention_research.config import ConfigError
from attention_research.data import named_pictures
from attention_research.data.captions import Captions
from attention_research.data.prepared import chosen
from attention_research.data.tokenizer import SentencePiece
from attention_research.data.words import Words

SPLITS = {"train": "train", "validation": "val", "test": "test"}


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory):
    """(the folder of the handmade set, its texts)."""
    folder = tmp_path_factory.mktemp("handmade") / "tfds"
    return folder, handmade_pictures.write(folder)


@pytest.fixture
def written(data_home, on_disk):
    """split -> the captions of each picture, in lower case and with the full stop as a separate word."""
    folder, told = on_disk
    shutil.copytree(folder, data_home / "tfds")
    plain = lambda text: text.lower().replace(".", " .")
    return {split: [[plain(one["text"]) for one in texts["captions"]] for texts in told[split]] for split in told}


def data(tokenizer=Words, vocabulary_size=29, **settings):
    given = {"name": "coco_captions", "side": 17, "channels": 3, "max_length": 11} | settings
    tokenizer = functools.partial(tokenizer, vocabulary_size=vocabulary_size)
    return Captions(**given, vocabulary_size=vocabulary_size, tokenizer=tokenizer)


def number_of(image, split):
    """The number of the picture in which all pixels have this colour."""
    (colour,) = {tuple(map(int, pixel)) for pixel in image.reshape(-1, 3)}
    assert colour == handmade_pictures.colour(split, colour[1] // 4)
    return colour[1] // 4


def pairs(batch, tokenizer, split):
    """(number of the picture, caption) of each row that is not padding."""
    texts = tokenizer.decode(batch["target"].tolist())
    return [(number_of(image, split), text) for image, text in zip(batch["image"], texts, strict=True) if text]


def test_training_sees_every_pair_of_picture_and_caption_once_an_epoch(written):
    one = data().prepare()
    short = [(n, text) for n, told in enumerate(written["train"]) for text in told if len(text.split()) < 11]
    every = sum(map(len, written["train"]))
    assert one.sizes()["train"] == len(short) and one.dropped == every - len(short) > 0
    steps = -(-len(short) // 7)
    batches = [batch for _, (_, batch) in zip(range(2 * steps), one.train_batches(3, 7), strict=False)]
    for epoch in (batches[:steps], batches[steps:]):
        assert Counter(pair for batch in epoch for pair in pairs(batch, one.tokenizer, "train")) == Counter(short)
    assert not np.array_equal(batches[0]["target"], batches[steps]["target"])
    (shapes,) = one.train_shapes(7)
    assert {name: x.shape for name, x in batches[0].items()} == shapes
    assert {name: str(x.dtype) for name, x in batches[0].items()} == {"image": "uint8", "target": "int32"}


@pytest.mark.parametrize("split", SPLITS)
def test_evaluation_sees_every_picture_once_and_has_all_its_references(written, split):
    one, of_set = data(), SPLITS[split]
    references, seen = one.references(split), []
    assert Counter(map(tuple, references)) == Counter(map(tuple, written[of_set]))
    for ids, batch in one.evaluation_batches(split, 8):
        assert not batch["image"][ids < 0].any() and not batch["target"][ids < 0].any()
        for picture, image, target in zip(ids, batch["image"], batch["target"], strict=True):
            if picture >= 0:
                number, words = number_of(image, of_set), one.tokenizer.decode([target.tolist()])[0].split()
                assert references[picture] == written[of_set][number]
                readable = [text for text in references[picture] if split != "train" or len(text.split()) < 11]
                assert readable[0].split()[:10] == words and target[len(words)] == 2
                seen.append(int(picture))
    captioned = [n for n, told in enumerate(references) if any(split != "train" or len(t.split()) < 11 for t in told)]
    assert seen == captioned and len(references) == handmade_pictures.SIZES[of_set] > len(seen)
    assert one.text(split)[1] == references and len(one.text(split)[0]) == len(set(one.text(split)[0]))
    some = [ids for ids, _ in one.evaluation_batches(split, 4, examples=5)]
    assert sum((ids >= 0).sum() for ids in some) == 5 and set(np.concatenate(some)) - {-1} <= set(captioned)


@pytest.mark.slow
def test_a_smaller_training_set_is_that_many_pictures_with_their_own_words(written):
    few = data(train_examples=9).prepare()
    numbers = {
        number for _, batch in few.evaluation_batches("train", 9) for number, _ in pairs(batch, few.tokenizer, "train")
    }
    assert len(few.references("train")) == 9 and len(numbers) > 6 and few.sizes()["test"] == 13
    assert few.references("train") == [data().references("train")[n] for n in chosen("train", 53, 9)]
    words = {word for told in few.references("train") for text in told for word in text.split()}
    assert few.tokenizer.size == len(words) + 4
    assert few.fingerprint != data().fingerprint == data().fingerprint != data(side=19).fingerprint


def test_large_sets_are_read_one_picture_at_a_time(written, monkeypatch):
    held = data().batch_at(0, 2, 9)
    monkeypatch.setattr(named_pictures, "HELD", 1)
    apart = data()
    assert all(np.array_equal(held[name], x) for name, x in apart.batch_at(0, 2, 9).items())
    monkeypatch.setattr(named_pictures, "kept", lambda *given: pytest.fail("reads all pictures"))
    assert apart.batch_at(0, 3, 9)["image"].any()


def test_prepared_data_is_not_read_again(written, monkeypatch):
    first = data().prepare().batch_at(1, 0, 5)
    monkeypatch.setattr(named_pictures.PictureSet, "_made", lambda *given: pytest.fail("reads the texts again"))
    monkeypatch.setattr(named_pictures.Pictures, "_resized", lambda *given: pytest.fail("resized again"))
    assert np.array_equal(data().batch_at(1, 0, 5)["image"], first["image"])


def test_settings_for_grey_pictures_pieces_and_original_texts(written):
    grey = data(channels=1, normalization="none", tokenizer=SentencePiece, vocabulary_size=61, max_length=40).prepare()
    batch = grey.batch_at(0, 0, 7)
    assert batch["image"].shape == (7, 17, 17, 1) and batch["image"].any()
    texts = [text for told in grey.references("train") for text in told]
    assert all(re.fullmatch(r"[A-Za-z ]+\.", text) for text in texts) and any(text != text.lower() for text in texts)
    assert set(grey.tokenizer.decode(batch["target"].tolist())) <= set(texts)
    assert len(grey.target_tokens("test")) == sum(len(one) for one in grey.tokenizer.encode(
        [told[0] for told in grey.references("test") if told]))  # fmt: skip
    assert grey.written([[*grey.tokenizer.encode(["a dog"])[0], 9]], [""]) == ["a dog"]


def test_mistakes_are_named(written):
    with pytest.raises(ConfigError, match="channels: 2 is neither 1, grey, nor 3"):
        data(channels=2)
    with pytest.raises(ConfigError, match="did you mean coco_captions"):
        data(name="coco_caption")
    with pytest.raises(ConfigError, match="no split 'tset'"):
        next(data().evaluation_batches("tset", 4))
