"""Pictures as arrays: composed, decoded and resized, against NumPy; sets with images in TFDS's form, without TFDS."""

import io
import sys

import numpy as np
import pytest
import tensorflow_datasets as tfds
from handmade_tfds import prepared
from PIL import Image

from attention_research.data import near_pictures, sources
from attention_research.data.image_source import decoded, encoded, middle, open_images, resized
from attention_research.errors import ConfigError, RunError

CHANCE = np.random.default_rng(5)


def file(pixels, mode, format="PNG", **options):
    content = io.BytesIO()
    Image.fromarray(pixels, mode).save(content, format, **options)
    return content.getvalue()


def test_transparent_pixels_are_composed_on_white():
    pixels = CHANCE.integers(256, size=(5, 7, 4), dtype=np.uint8)
    colour, alpha = pixels[..., :3].astype(float), pixels[..., 3:] / 255
    found = decoded(file(pixels, "RGBA"))
    assert found.shape == (5, 7, 3) and np.abs(found - (colour * alpha + 255 * (1 - alpha))).max() <= 1


def test_a_palette_with_a_clear_colour():
    """Two colours, of which the first is transparent, as in Twemoji's drawings."""
    picture = Image.new("P", (3, 2), 1)
    picture.putpalette([9, 9, 9, 200, 100, 50])
    picture.putpixel((2, 1), 0)
    content = io.BytesIO()
    picture.save(content, "PNG", transparency=0)
    expected = np.full((2, 3, 3), (200, 100, 50))
    expected[1, 2] = 255
    np.testing.assert_array_equal(decoded(content.getvalue()), expected)


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK", "LA", "1"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_mode_has_the_channels_that_are_asked_for(mode, channels):
    content = io.BytesIO()
    Image.new("RGB", (3, 5), (255, 255, 255)).convert(mode).save(content, "JPEG" if mode == "CMYK" else "PNG")
    found = decoded(content.getvalue(), channels)
    assert found.shape == (5, 3, channels) and found.dtype == np.uint8 and found.min() >= 254


@pytest.mark.parametrize("channels", [1, 3])
def test_a_png_round_trip_keeps_the_array(channels):
    image = CHANCE.integers(256, size=(5, 7, channels), dtype=np.uint8)
    np.testing.assert_array_equal(decoded(encoded(image), channels), image)


def triangle(size, new):
    """[new size]: the weights of the old pixels for each new one, a triangle as wide as a new pixel, in float64."""
    scale = size / new
    center = (np.arange(new) + 0.5) * scale
    distance = np.abs(np.arange(size) + 0.5 - center[:, None]) / max(scale, 1)
    weights = np.maximum(1 - distance, 0)
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("shape", "side"), [((23, 23), 7), ((29, 17), 11), ((5, 13), 19)])
@pytest.mark.parametrize("channels", [1, 3])
def test_resized_is_a_triangle_filter_on_white(shape, side, channels):
    image = CHANCE.integers(256, size=(*shape, channels), dtype=np.uint8)
    height, width = (max(1, round(length * side / max(shape))) for length in shape)
    expected = np.full((side, side, channels), 255.0)
    top, left = (side - height) // 2, (side - width) // 2
    smaller = np.einsum("ay,bx,yxc->abc", triangle(shape[0], height), triangle(shape[1], width), image)
    expected[top : top + height, left : left + width] = smaller
    assert np.abs(resized(image, side) - expected).max() <= 1.01  # it rounds after each axis


def test_colours_become_grey_and_grey_becomes_colours():
    image = CHANCE.integers(256, size=(5, 7, 3), dtype=np.uint8)
    grey = image @ np.array([0.299, 0.587, 0.114])
    assert np.abs(resized(image, None, 1)[..., 0] - grey).max() <= 1
    np.testing.assert_array_equal(resized(image[..., :1], None, 3), np.repeat(image[..., :1], 3, axis=2))
    np.testing.assert_array_equal(resized(image, None), image)


def test_the_middle_crop_is_a_square():
    image = CHANCE.integers(256, size=(11, 6, 3), dtype=np.uint8)
    np.testing.assert_array_equal(middle(image), image[2:8])
    np.testing.assert_array_equal(middle(image[:4]), image[:4, 1:5])


def test_similar_pictures_are_found():
    """The block-wise search finds the same pairs as a pairwise one.

    A lighter copy is similar, a mirrored one is not.
    """
    base = CHANCE.integers(60, 200, size=(300, 24, 24, 3), dtype=np.uint8)
    pictures = [*base, base[7] + 2, base[290] + 2, base[7, :, ::-1], base[7] + 9]
    assert sorted(near_pictures.alike(pictures)) == [(7, 300), (290, 301)]


# Sets


@pytest.fixture
def coco(data_home):
    """Five JPEG files with 1 to 5 captions in the layout of coco_captions, whose TFDS builder needs TensorFlow."""
    colours = [file(np.full((7, 5 + size, 3), 40 * size, np.uint8), "RGB", "JPEG", quality=95) for size in range(5)]
    examples = [
        {"image": image, "image/id": 10 + size, "captions": [{"id": n, "text": f"café {n}"} for n in range(size + 1)]}
        for size, image in enumerate(colours)
    ]
    captions = tfds.features.Sequence({"id": tfds.features.Scalar(np.int64), "text": tfds.features.Text()})
    features = {"image": tfds.features.Image(), "image/id": tfds.features.Scalar(np.int64), "captions": captions}
    splits = {"train": examples, "val": examples[:3]}
    prepared(data_home, "coco_captions", features, splits, version="1.1.0", config="2014")
    return data_home


@pytest.mark.parametrize("name", ["coco_captions", "coco_captions/2014", "coco_captions/2014:1.1.0"])
def test_coco_captions_is_read_where_it_is_prepared(coco, name):
    images = open_images(name, "train")
    found = {int(one["image/id"]): one for one in images}
    assert len(images) == 5 and set(found) == {10, 11, 12, 13, 14} and sources.split_names(name) == ("train", "val")
    for size in range(5):
        one = found[10 + size]
        assert one["captions"]["text"] == [f"café {n}" for n in range(size + 1)]
        assert one["image"].shape == (7, 5 + size, 3) and np.abs(one["image"].astype(int) - 40 * size).max() <= 1
    assert sorted(images.feature("image/id")) == [10, 11, 12, 13, 14]
    several = images.__getitems__([3, 0])
    for one, place in zip(several, (3, 0), strict=True):
        np.testing.assert_array_equal(one["image"], images[place]["image"])
    with pytest.raises(IndexError):
        images[5]


def test_tensorflow_is_not_imported(coco, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)  # importing it would fail
    assert len(open_images("coco_captions", "val")) == 3


@pytest.mark.parametrize("name", ["coco_captions/2017", "cifar10", "imagenet2012"])
def test_a_set_that_is_not_here_is_one_line(data_home, name):
    with pytest.raises(
        RunError, match=rf"^{name} is not on this machine; prepare it with TFDS as array_record \(`tfds"
    ):
        open_images(name, "train")


def test_a_split_that_is_not_there_is_one_line(coco):
    with pytest.raises(ConfigError, match=r"^coco_captions has no split 'test'; it has train, val$"):
        open_images("coco_captions", "test")


def test_tfds_s_mock_data(data_home):
    """Arrays and str, as returned by `tfds.testing.mock_data`, are passed on unchanged."""
    image = CHANCE.integers(256, size=(32, 32, 3), dtype=np.uint8)
    read = lambda self, split, **options: [{"image": image, "label": 7, "id": "one"}]
    with tfds.testing.mock_data(as_data_source_fn=read):
        (one,) = open_images("cifar10", "train")
        np.testing.assert_array_equal(one["image"], image)
        assert (one["label"], one["id"]) == (7, "one")
