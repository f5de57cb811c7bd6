"""The adding problem and copy memory: every example against its definition, uniform draws, refused sizes."""

import math

import numpy as np
import pytest

from attention_research.config import ConfigError
from attention_research.data.adding import Adding
from attention_research.data.copy_memory import CopyMemory

T, N = 23, 997


def test_the_sum_is_that_of_the_two_marked_numbers():
    data = Adding(max_length=T, train_examples=N, held_out=31)
    for split, rows in (("train", N), ("validation", 31), ("test", 31)):
        batch = data.arrays(split)
        assert batch["series"].shape == (rows, T, 2) and batch["series"].dtype == batch["value"].dtype == np.float32
        for series, value in zip(batch["series"], batch["value"], strict=True):
            marked = [t for t in range(T) if series[t, 1] == 1]
            assert len(marked) == 2 and set(np.unique(series[:, 1])) == {0, 1}
            assert value == series[marked[0], 0] + series[marked[1], 0]
            assert 0 <= series[:, 0].min() and series[:, 0].max() < 1


def test_numbers_and_places_are_uniform():
    train = Adding(max_length=T, train_examples=20 * N).arrays("train")
    numbers, marks = train["series"][..., 0], train["series"][..., 1]
    np.testing.assert_allclose(np.quantile(numbers, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.005)
    np.testing.assert_allclose(marks.mean(0), 2 / T, atol=0.01)
    rows, places = np.nonzero(marks)
    apart = np.diff(places.reshape(-1, 2), axis=1).ravel()  # all pairs of two distinct places are as frequent
    found = np.bincount(apart, minlength=T)[1:] / len(apart)
    np.testing.assert_allclose(found, (T - np.arange(1, T)) / math.comb(T, 2), atol=0.01)
    assert np.mean((train["value"] - 1) ** 2) == pytest.approx(1 / 6, abs=0.005)


def test_copy_memory_asks_for_its_symbols_in_their_order():
    data = CopyMemory(max_length=T, length=4, train_examples=N, held_out=31)
    delay = T - 8
    batch = data.arrays("train")
    assert batch["series"].shape == (N, T, 1) and batch["target"].dtype == np.int32
    for series, target in zip(batch["series"][..., 0].tolist(), batch["target"].tolist(), strict=True):
        symbols = target[-4:]
        assert series == [*symbols, *[0] * (delay - 1), *[9] * 5]
        assert target == [*[0] * (delay + 4), *symbols] and set(symbols) <= set(range(1, 9))
    np.testing.assert_allclose(np.bincount(batch["target"][:, -4:].ravel())[1:] / (4 * N), 1 / 8, atol=0.02)


def test_the_published_sizes_and_the_answer_without_a_memory():
    data = CopyMemory(max_length=1020)
    assert data.numbers == {"train": 10_000, "validation": 1000, "test": 1000}
    assert data.memoryless == pytest.approx(10 * math.log(8) / 1020) and round(data.memoryless, 4) == 0.0204
    assert Adding(max_length=600).numbers == {"train": 50_000, "validation": 1000, "test": 1000}


@pytest.mark.parametrize("make", [Adding, CopyMemory])
def test_batches_have_the_shapes_that_are_said(make):
    data = make(max_length=T, train_examples=97, held_out=23).prepare()
    (shapes,) = data.train_shapes(5)
    batch = data.batch_at(seed=3, step=2, batch_size=5)
    assert {name: array.shape for name, array in batch.items()} == shapes
    assert {name: str(array.dtype) for name, array in batch.items()} == {
        name: data.dtypes.get(name, "int32") for name in shapes
    }
    ids, filled = list(data.evaluation_batches("test", 10))[-1]
    unreal = np.isnan(filled["value"]) if make is Adding else (filled["target"] == -1).all(axis=1)
    np.testing.assert_array_equal(unreal, ids == -1)
    assert f"97 series of {T} positions" in data.describe()


def test_other_settings_give_other_series():
    sizes = {"max_length": T, "train_examples": 9, "held_out": 5}
    changes = ({}, {"max_length": 24}, {"train_examples": 8}, {"held_out": 4})
    prints = [Adding(**sizes | one).fingerprint for one in changes]
    prints += [CopyMemory(**sizes | one).fingerprint for one in (*changes, {"length": 3})]
    assert len(set(prints)) == 9 and Adding(**sizes).fingerprint == prints[0]


@pytest.mark.parametrize(
    ("make", "sizes", "message"),
    [
        (Adding, {"max_length": 1}, "data.max_length: two positions are marked, so at least 2; got 1"),
        (CopyMemory, {"max_length": 20}, "10 symbols are read and written, so more than 20; got 20"),
    ],
)
def test_sizes_without_room_are_refused(make, sizes, message):
    with pytest.raises(ConfigError, match=message):
        make(**sizes)
