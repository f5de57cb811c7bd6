"""Collages: captions, gold cells, questions and answers, against the content that is read from the pixels alone."""

from collections import Counter

import handmade_digits
import numpy as np
import pytest
from reading_collages import NUMBERS, seen

from attention_research.config import ConfigError
from attention_research.data import collages
from attention_research.data.collage_captions import Collages
from attention_research.data.collage_questions import FORMS, CollageQuestions
from attention_research.data.collages import COLOURS, DIGITS, Layout
from attention_research.data.pixels import Pixels
from tests.tiers import fast_are

SPLITS = ("train", "validation", "test")


@pytest.fixture(autouse=True)
def digits(data_home, tmp_path, monkeypatch, request):
    """Squares in place of digits, unless a test needs the real ones."""
    if request.node.get_closest_marker("data") is None:
        handmade_digits.lay(tmp_path, monkeypatch)


def captioned(**settings):
    sizes = {"side": 48, "max_length": 37, "vocabulary_size": 29, "train_examples": 131, "held_out": 31}
    return Collages(**sizes | settings)


def asked(**settings):
    sizes = {"side": 48, "max_length": 11, "vocabulary_size": 43, "train_pictures": 61, "held_out": 17}
    return CollageQuestions(**sizes | settings)


def objects(image, split, grid=3):
    """The objects on a picture without its clutter. Checks that they belong to the split and are small or large."""
    cell = len(image) // grid
    large, small = cell - 2, round(0.6 * (cell - 2))
    found = seen(image, grid)
    assert {one.split for one in found} <= {split}
    assert all(one.rows == one.columns in ((cell // 2,) if one.colour == "grey" else (small, large)) for one in found)
    return [one for one in found if one.colour != "grey"]


@pytest.mark.parametrize("settings", [
    {}, {"max_objects": 7, "min_objects": 7, "clutter": 0.0},
    {"grid": 5, "side": 65, "min_objects": 2, "max_objects": 25, "max_length": 127, "clutter": 0.9},
], ids=["up-to-5", "always-7", "up-to-25"])  # fmt: skip
@pytest.mark.parametrize("split", fast_are(["train"], SPLITS))
def test_a_caption_says_what_is_in_the_picture_in_reading_order(split, settings):
    data, grid = captioned(**settings), settings.get("grid", 3)
    for ids, batch in data.evaluation_batches(split, 19):
        for picture, image, target, cells, number in zip(ids, *map(batch.get, ("image", "target", "cells", "objects")),
                                                         strict=True):  # fmt: skip
            there = objects(image, split, grid)
            assert len(there) == number
            if picture < 0:
                assert not (image.any() or target.any() or cells.any() or number)
                continue
            large = len(image) // grid - 2
            said = [(f"{'large' if one.rows == large else 'small'} {one.colour} {NUMBERS[one.digit]}") for one in there]
            head, last = said[:-1], said[-1]
            text = f"{' , '.join('a ' + one for one in head)} and a {last}" if head else f"a {last}"
            assert data.tokenizer.decode([target.tolist()]) == [text] == data.references(split)[picture]
            words = data.tokenizer.pieces(target[: len(text.split())])
            pointed = [words[place][1:] for place in np.flatnonzero(cells)]
            assert " ".join(pointed) == " ".join(said)
            assert cells[cells > 0].tolist() == [one.cell for one in there for _ in range(3)]


def test_drawn_objects_are_balanced():
    """Object counts cycle. Digits, colours, sizes and cells are each within five standard errors of their share."""
    drawn = captioned(train_examples=2000).drawn("train")
    there = drawn["digit"] >= 0
    assert np.bincount(there.sum(axis=1), minlength=6).tolist() == [0, 400, 400, 400, 400, 400]
    for name, kinds in (("digit", 10), ("colour", 5), ("size", 2)):
        shares = np.bincount(drawn[name][there], minlength=kinds) / there.sum()
        assert np.abs(shares - 1 / kinds).max() < 5 * np.sqrt(1 / kinds / there.sum())
    assert np.abs(there.mean(axis=0) - 3 / 9).max() < 5 * np.sqrt(2 / 9 / 2000)
    grey = [sum(one.colour == "grey" for one in seen(image, 3)) for image in drawn["image"][:400]]
    assert abs(np.sum(grey) / np.sum(~there[:400]) - 0.5) < 0.06


def test_objects_occur_everywhere_in_a_cell():
    images = captioned(train_examples=400, clutter=0.0).drawn("train")["image"]
    columns = images.any(axis=(0, 1, 3))
    assert columns.all() and images.any(axis=(0, 2, 3)).all()


def test_descriptions_run_to_hundreds_of_words():
    data = captioned(side=96, grid=8, min_objects=2, max_objects=60, max_length=300, train_examples=118)
    lengths = np.sum(data.arrays("train")["target"] > 3, axis=1)
    assert sorted(set(lengths.tolist())) == [5 * n - 1 for n in range(2, 61)] and lengths.max() == 299


def test_a_picture_is_a_function_of_its_split_and_number():
    few, more = captioned().drawn("train"), captioned(train_examples=150).drawn("train")
    assert all(np.array_equal(few[name], more[name][:131]) for name in few)
    every = [captioned().drawn(split)["image"] for split in SPLITS]
    assert len({image.tobytes() for images in every for image in images}) == sum(map(len, every))
    kinds = [captioned(), captioned(clutter=0.25), captioned(max_objects=4), captioned(max_length=41), asked()]
    assert len({data.fingerprint for data in kinds}) == len(kinds)
    assert captioned().fingerprint == captioned().fingerprint and asked().fingerprint == asked().fingerprint


def test_made_pictures_are_reused(monkeypatch):
    first = captioned().drawn("train")["image"]
    monkeypatch.setattr(collages, "_made", lambda *given: pytest.fail("made again"))
    assert np.array_equal(captioned().drawn("train")["image"], first)


def answer(question, there, grid):
    """(answer, cell) of a question in words, given the objects (cell, digit, colour)."""
    match question.split():
        case ["which", "digit", "is", "at", "row", row, "column", column, "?"]:
            (one,) = [one for one in there if one.cell == (int(row) - 1) * grid + int(column)]
        case ["which", "digit", "is", colour, "?"]:
            (one,) = [one for one in there if one.colour == colour]
        case ["how", "many", plural, "are", "there", "?"]:
            digit = NUMBERS.index(plural.removesuffix("es" if plural == "sixes" else "s"))
            return NUMBERS[sum(one.digit == digit for one in there)], 0
    return NUMBERS[one.digit], one.cell


@pytest.mark.parametrize("settings", [{}, {"grid": 4, "side": 60, "max_objects": 16, "questions": 7}],
                         ids=["3x3", "4x4"])  # fmt: skip
@pytest.mark.parametrize("split", fast_are(["validation"], SPLITS))
def test_answers_agree_with_the_pixels(split, settings):
    data, grid = asked(**settings), settings.get("grid", 3)
    texts, answers = data.text(split)
    forms, told = Counter(), {}
    for ids, batch in data.evaluation_batches(split, 23):
        for number, image, source, label, cell, form in zip(
            ids, *map(batch.get, ("image", "source", "label", "cells", "form")), strict=True
        ):
            if number < 0:
                assert label == -1 and not (image.any() or source.any() or cell or form)
                continue
            text = texts[number]
            assert data.tokenizer.decode([source.tolist()]) == [text] and "<unk>" not in text and source[-1] in (0, 2)
            assert answer(text, objects(image, split, grid), grid) == (DIGITS[label], cell)
            assert answers[number] == data.classes[label] and data.labels(split)[number] == label
            assert form == (3 if "many" in text else 1 if "row" in text else 2)
            forms[FORMS[form - 1]] += 1
            told.setdefault(image.tobytes(), []).append(text)
    assert set(forms) == set(FORMS)
    assert all(len(set(one)) == len(one) == settings.get("questions", 3) for one in told.values())


def test_question_forms_and_counts_are_balanced():
    """Forms are balanced if a picture allows all three. Counts cover every number that is right for some digit."""
    data = asked(questions=1, train_pictures=1500)
    digits, colours = (data.drawn("train")[name] for name in ("digit", "colour"))
    form, label = (data.arrays("train")[name] for name in ("form", "label"))
    single = np.array([1 in np.bincount(row[row >= 0]) for row in colours])
    assert (
        np.abs(np.bincount(form[single], minlength=4)[1:] / single.sum() - 1 / 3).max() < 5 * 0.47 / single.sum() ** 0.5
    )
    counts = [set(np.bincount(row[row >= 0], minlength=10).tolist()) for row in digits[form == 3]]
    for many in (0, 1, 2):
        share = np.mean([(many in there) / len(there) for there in counts])
        assert abs(np.mean(label[form == 3] == many) - share) < 5 * (share / len(counts)) ** 0.5


SETS = {"captions": captioned, "questions": asked}


@pytest.mark.parametrize("kind", SETS)
def test_batches_are_a_function_of_seed_and_step(kind):
    one, again = SETS[kind](), SETS[kind]().prepare()
    texts, seed = {"captions": "target", "questions": "source"}[kind], 5
    steps = -(-one.sizes()["train"] // 7)
    batches = [one.batch_at(seed, step, 7) for step in range(steps)]
    (shapes,) = one.train_shapes(7)
    for batch, (_, other) in zip(batches, again.train_batches(seed, 7), strict=False):
        assert {name: x.shape for name, x in batch.items()} == shapes
        assert all(np.array_equal(batch[name], other[name]) for name in shapes)
        assert {name: str(x.dtype) for name, x in batch.items()} == dict.fromkeys(shapes, "int32") | one.dtypes
    assert not np.array_equal(batches[0][texts], one.batch_at(6, 0, 7)[texts])
    pairs = lambda batch: zip(batch["image"], batch[texts], strict=True)
    rows = lambda batch: [image.tobytes() + text.tobytes() for image, text in pairs(batch) if text.any()]
    trained = Counter(row for batch in batches for row in rows(batch))
    assert trained == Counter(row for _, batch in one.evaluation_batches("train", 64) for row in rows(batch))
    assert trained.total() == one.sizes()["train"]
    halves = [one.batch_at(seed, 1, 8, host, 2)["image"] for host in range(2)]
    assert np.array_equal(np.concatenate(halves), one.batch_at(seed, 1, 8)["image"])
    assert sum((ids >= 0).sum() for ids, _ in one.evaluation_batches("test", 9, examples=11)) == 11
    with pytest.raises(ConfigError, match="no split 'tset'"):
        next(one.evaluation_batches("tset", 4))


def test_target_tokens_are_what_a_loss_counts():
    data = captioned()
    assert len(data.target_tokens("test")) == np.sum(data.arrays("test")["target"] != 0)
    assert np.all(data.target_tokens("train", 5) > 0) and data.written([[4, 2, 5]], [""]) == ["a"]


@pytest.mark.parametrize("make, wrong, message", [
    (captioned, {"side": 49}, "data.side: 49 pixels do not divide into 3 x 3 cells"),
    (captioned, {"side": 33}, "data.side: .* take at least 36"),
    (captioned, {"max_objects": 10, "max_length": 50}, "data.max_objects: 10 do not fit"),
    (captioned, {"min_objects": 6}, "data.min_objects: 6 is more than max_objects, 5"),
    (captioned, {"max_length": 24}, "data.max_length: captions of 5 objects have 25 tokens, 24"),
    (captioned, {"vocabulary_size": 23}, "vocabulary_size: 23 leaves no room for 20 words and 4 others"),
    (captioned, {"channels": 1}, "data.channels: these pictures are in colours: 3, not 1"),
    (asked, {"channels": 1}, "data.channels: these pictures are in colours: 3, not 1"),
    (asked, {"max_length": 9}, "data.max_length: questions have up to 10 tokens, 9"),
    (asked, {"vocabulary_size": 31}, "vocabulary_size: 31 leaves no room"),
    (asked, {"questions": 11}, "data.questions: a picture always allows 10"),
], ids=lambda given: next(iter(given)) if isinstance(given, dict) else None)  # fmt: skip
def test_mistakes_are_named(make, wrong, message):
    with pytest.raises(ConfigError, match=message):
        make(**wrong)


@pytest.mark.slow
@pytest.mark.data
def test_the_real_digits_can_be_read_small_and_large():
    """The nearest of 4,000 training digits, pixel by pixel, has the same class; for MNIST itself 93 to 95% if large."""
    pixels = Pixels(max_length=784)
    layout = Layout(48, 3, 1, 5, 0.5)
    inks = {
        split: collages.shrunk_digits(pixels.arrays(split)["source"].reshape(-1, 28, 28) - 1, layout)
        for split in ("train", "test")
    }
    for size, side, least in ((0, 8, 0.85), (1, 14, 0.9)):
        known, new = (inks[split][size].astype(np.float32).reshape(-1, side**2) for split in ("train", "test"))
        nearest = np.argmin(np.sum(known**2, axis=1) - 2 * new @ known.T, axis=1)
        right = np.mean(pixels.labels("train")[nearest] == pixels.labels("test"))
        assert right > least
    assert set(map(len, (DIGITS, COLOURS))) == {10, 5}
