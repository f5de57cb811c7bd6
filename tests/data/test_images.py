"""The data kind `images`: batches against the sets' images, augmentation against a loop, memory."""

import itertools

import numpy as np
import pytest
import tensorflow_datasets as tfds
from handmade_tfds import prepared

from attention_research.config import ConfigError
from attention_research.data import images as images_module
from attention_research.data.image_source import encoded, middle, open_images, resized
from attention_research.data.images import ImageData, flipped_and_shifted
from attention_research.errors import RunError

CHANCE = np.random.default_rng(11)
NUMBERS = {"train": 61, "validation": 7, "test": 13}


def labelled(count, shape):
    pictures = CHANCE.integers(256, size=(count, *shape), dtype=np.uint8)
    return [{"image": encoded(image), "label": place % 3} for place, image in enumerate(pictures)]


@pytest.fixture
def digits(data_home):
    """A set under the name of one of ours, with 10 x 10 pixels and three classes."""
    features = {
        "image": tfds.features.Image(shape=(10, 10, 1)),
        "label": tfds.features.ClassLabel(names=["a", "b", "c"]),
    }
    splits = {split: labelled(count, (10, 10, 1)) for split, count in NUMBERS.items()}
    prepared(data_home, "digit_images", features, splits)


def data(**settings):
    return ImageData(**{"name": "digit_images", "side": 10, "channels": 1} | settings)


def stored(split, name="digit_images"):
    return list(open_images(name, split))


def test_evaluation_has_every_image_once_and_black_rows(digits):
    found = data()
    images = stored("test")
    seen = []
    for ids, batch in found.evaluation_batches("test", 5):
        assert batch["image"].dtype == np.uint8 and batch["label"].dtype == np.int32
        for place, image, label in zip(ids, batch["image"], batch["label"], strict=True):
            if place < 0:
                assert label == -1 and not image.any()
                continue
            np.testing.assert_array_equal(image, images[place]["image"])
            assert label == images[place]["label"]
            seen.append(int(place))
    assert seen == list(range(13)) and found.numbers == NUMBERS == found.sizes() and found.classes == ("a", "b", "c")
    np.testing.assert_array_equal(found.labels("test"), [one["label"] for one in images])
    few = [ids[ids >= 0] for ids, _ in found.evaluation_batches("test", 5, examples=8)]
    assert len(np.unique(np.concatenate(few))) == 8
    with pytest.raises(ConfigError, match=r"^digit_images has no split 'dev'; it has train, validation, test$"):
        next(found.evaluation_batches("dev", 5))


def test_an_epoch_has_every_image_once(digits):
    found = data()
    pairs = [(image.tobytes(), int(label)) for step in range(8) for image, label in zip(
        *(found.batch_at(3, step, 8)[name] for name in ("image", "label")), strict=True) if label >= 0]  # fmt: skip
    expected = [(one["image"].tobytes(), int(one["label"])) for one in stored("train")]
    assert sorted(pairs) == sorted(expected) and pairs != expected


@pytest.mark.parametrize("augmentation", ["none", "flip_and_shift"])
def test_a_batch_is_a_function_of_seed_and_step(digits, augmentation):
    found, again = data(augmentation=augmentation), data(augmentation=augmentation)
    stream = list(itertools.islice(found.train_batches(3, 8, start_step=5), 3))
    assert [step for step, _ in stream] == [5, 6, 7]
    for step, batch in stream:
        assert {name: x.shape for name, x in batch.items()} == found.train_shapes(8)[0]
        assert all(batch[name].dtype == found.dtypes.get(name, "int32") for name in batch)
        same = again.batch_at(3, step, 8)
        parts = [again.batch_at(3, step, 8, host, 2) for host in range(2)]
        for name in batch:
            np.testing.assert_array_equal(same[name], batch[name])
            np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), batch[name])
    assert (found.batch_at(4, 5, 8)["image"] != stream[0][1]["image"]).any()


def test_flips_and_shifts_are_crops_of_a_padded_image(digits):
    """Each is one of the 162 crops of its own padded image, mirrored or not. All 81 offsets and both sides occur."""
    images = CHANCE.integers(1, 256, size=(2000, 10, 7, 3), dtype=np.uint8)
    found = flipped_and_shifted(images, np.random.default_rng(0))
    places = set()
    for image, piece in zip(images, found, strict=True):
        padded = np.zeros((18, 15, 3), np.uint8)
        padded[4:14, 4:11] = image
        pieces = {
            padded[top : top + 10, left : left + 7][:, :: -1 if flip else 1].tobytes(): (top, left, flip)
            for top in range(9) for left in range(9) for flip in (False, True)
        }  # fmt: skip
        places.add(pieces[piece.tobytes()])
    assert len(places) == 162
    batch, plain = (data(augmentation=kind).batch_at(3, 0, 8) for kind in ("flip_and_shift", "none"))
    expected = flipped_and_shifted(plain["image"], np.random.default_rng([3, 0, ImageData.evaluation_seed]))
    np.testing.assert_array_equal(batch["image"], expected)
    np.testing.assert_array_equal(batch["label"], plain["label"])
    evaluated = [
        next(data(augmentation=kind).evaluation_batches("test", 13))[1]["image"] for kind in ("none", "flip_and_shift")
    ]
    np.testing.assert_array_equal(*evaluated)


def test_smaller_training_sets_are_subsets_of_larger_ones(digits):
    labels = {n: data(train_examples=n).prepare() for n in (5, 23)}
    seen = {n: {image.tobytes() for image in found.images("train", np.arange(n))} for n, found in labels.items()}
    assert len(seen[5]) == 5 and seen[5] < seen[23] < {one["image"].tobytes() for one in stored("train")}
    assert labels[5].numbers == NUMBERS | {"train": 5}


@pytest.mark.parametrize(("side", "channels"), [(7, 1), (10, 3)])
def test_images_are_resized_once_and_kept(digits, monkeypatch, side, channels):
    reports = []
    found = data(side=side, channels=channels).prepare(reports.append)
    assert reports == ["reading the images of 61 examples of train", "reading the labels of 61 examples of train"]
    expected = [resized(one["image"], side, channels) for one in stored("train")]
    np.testing.assert_array_equal(found.images("train", np.arange(61)), expected)
    monkeypatch.setattr(images_module, "open_images", None, raising=False)
    again = data(side=side, channels=channels).prepare(reports.append)
    assert len(reports) == 2 and found.fingerprint == again.fingerprint != data(side=5).fingerprint
    assert again.describe() == f"digit_images · 61 images of {side} x {side} pixels · 3 classes"


@pytest.fixture
def photographs(data_home):
    """ImageNet's name for 31 photographs that are not square, with a test split without labels."""
    features = {"image": tfds.features.Image(), "label": tfds.features.ClassLabel(num_classes=1000),
                "file_name": tfds.features.Text()}  # fmt: skip
    splits = {}
    for split, count in {"train": 31, "validation": 5, "test": 2}.items():
        sizes = CHANCE.integers(9, 21, size=(count, 2))
        pictures = [CHANCE.integers(256, size=(*size, 3), dtype=np.uint8) for size in sizes]
        label = lambda place, split=split: -1 if split == "test" else 30 * place
        splits[split] = [{"image": encoded(image), "label": label(place), "file_name": f"n{place}.JPEG"}
                         for place, image in enumerate(pictures)]  # fmt: skip
    prepared(data_home, "imagenet2012", features, splits, version="5.1.0")


@pytest.mark.parametrize("held", [True, False])
def test_a_large_set_is_decoded_batch_by_batch(photographs, monkeypatch, held):
    """The batches are the same whether or not the images are in memory.

    Images not kept in memory are not cached on disk.
    """
    if not held:
        monkeypatch.setattr(images_module, "HELD", 1000)
    found = ImageData(name="imagenet2012", side=7, channels=3, augmentation="flip_and_shift")
    reports = []
    found.prepare(reports.append)
    assert [line for line in reports if "images" in line] == ["reading the images of 31 examples of train"] * held
    assert found.numbers == {"train": 31, "validation": 5} and len(found.classes) == 1000
    images = stored("validation", "imagenet2012")
    ((ids, batch),) = found.evaluation_batches("validation", 5)
    np.testing.assert_array_equal(batch["image"], [resized(middle(images[i]["image"]), 7, 3) for i in ids])
    np.testing.assert_array_equal(batch["label"], [images[i]["label"] for i in ids])
    first = found.batch_at(1, 2, 4)
    monkeypatch.setattr(images_module, "HELD", 2**30)
    again = ImageData(name="imagenet2012", side=7, channels=3, augmentation="flip_and_shift").batch_at(1, 2, 4)
    np.testing.assert_array_equal(again["image"], first["image"])


def test_a_set_without_validation_uses_a_tenth_of_training(data_home):
    features = {"image": tfds.features.Image(shape=(28, 28, 1)), "label": tfds.features.ClassLabel(num_classes=10)}
    splits = {"train": labelled(50, (28, 28, 1)), "test": labelled(3, (28, 28, 1))}
    prepared(data_home, "mnist", features, splits, version="3.0.1")
    found = ImageData(name="mnist", side=28, channels=1)
    assert found.numbers == {"train": 45, "validation": 5, "test": 3}
    seen = [{image.tobytes() for image in found.images(split, np.arange(n))} for split, n in found.numbers.items()]
    assert len(set.union(*seen)) == 53
    assert seen[0] | seen[1] == {one["image"].tobytes() for one in stored("train", "mnist")}


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"name": "fashion_image"}, r"data.name: no such data set: 'fashion_image'; did you mean fashion_images\?"),
        (
            {"name": "emoji_names/en"},
            r"data.name: emoji_names/en is not a set of images with one label each; .* fashion_images, .*",
        ),
        ({"channels": 2}, r"data.channels: an image has 1 channel or 3, not 2"),
    ],
)
def test_mistakes_are_one_line(data_home, settings, line):
    with pytest.raises(ConfigError, match=f"^{line}$"):
        data(**settings)


def test_a_set_that_is_not_here_is_one_line(data_home):
    with pytest.raises(RunError, match=r"^cifar10 is not on this machine; prepare it with TFDS as array_record"):
        ImageData(name="cifar10", side=32, channels=3).prepare()
