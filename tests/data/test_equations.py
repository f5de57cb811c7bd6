"""Equations: every one by Python's integers and permutations, the splits, and refused sizes."""

import itertools
from collections import Counter

import numpy as np
import pytest

from attention_research.config import ConfigError
from attention_research.data.equations import ELEMENTS, FIRST, Equations, equations

SIZES = {"max_length": 5, "vocabulary_size": 127, "train_fraction": 0.3}


def by_hand(operation):
    """{(a, b): c}, by pow and by composing functions."""
    if operation == "s5":
        every = list(itertools.permutations(range(5)))
        compose = lambda one, other: tuple(one[other[i]] for i in range(5))
        return {(i, j): every.index(compose(a, b)) for i, a in enumerate(every) for j, b in enumerate(every)}
    of = {
        "addition": lambda a, b: (a + b) % 97,
        "division": lambda a, b: a * pow(b, -1, 97) % 97,
        "polynomial": lambda a, b: (pow(a, 3, 97) + a * pow(b, 2, 97) + b) % 97,
    }[operation]
    return {(a, b): of(a, b) for a in range(97) for b in range(operation == "division", 97)}


@pytest.mark.parametrize("operation", ELEMENTS)
def test_every_equation_is_there_once_and_right(operation):
    found = equations(operation).tolist()
    assert len(found) == {"addition": 9409, "division": 9312, "polynomial": 9409, "s5": 14_400}[operation]
    assert {(a, b): c for a, b, c in found} == by_hand(operation)


@pytest.mark.parametrize("operation", ["division", "s5"])
def test_the_splits_are_all_equations_as_tokens(operation):
    data = Equations(operation=operation, **SIZES).prepare()
    number, equals = len(equations(operation)), FIRST + ELEMENTS[operation] + 1
    assert data.sizes() == {"train": round(0.3 * number), "validation": number - round(0.3 * number)}
    rows = np.concatenate([data.arrays(split)["target"] for split in data.sizes()])
    assert set(rows[:, 1]) == {equals - 1} and set(rows[:, 3]) == {equals} and equals < 127
    assert set(map(tuple, (rows[:, [0, 2, 4]] - FIRST).tolist())) == set(map(tuple, equations(operation).tolist()))
    assert all(set(data.arrays(split)["answers"].sum(0)) == {0, n} for split, n in data.sizes().items())
    assert data.arrays("train")["answers"][:, -1].all() and data.chance == 1 / ELEMENTS[operation]


def test_chance_is_the_share_of_the_most_frequent_answer():
    counts = Counter(by_hand("polynomial").values())
    assert Equations(operation="polynomial", **SIZES).chance == max(counts.values()) / 97**2 > 1 / 97


def test_other_settings_give_other_splits():
    made = [Equations(operation="addition", **SIZES | change)
            for change in ({}, {"split_seed": 1}, {"train_fraction": 0.4})]  # fmt: skip
    assert len({data.fingerprint for data in made}) == 3
    sets = [set(map(tuple, data.arrays("train")["target"].tolist())) for data in made]
    assert sets[0] < sets[2] and sets[0] != sets[1]  # more data contain the smaller set
    again = Equations(operation="addition", **SIZES)
    np.testing.assert_array_equal(again.batch_at(1, 7, 6)["target"], made[0].batch_at(1, 7, 6)["target"])
    assert again.fingerprint == made[0].fingerprint and "2,823 of 9,409 equations" in again.describe()
    batch = again.batch_at(0, 0, 512)
    assert {name: array.shape for name, array in batch.items()} == again.train_shapes(512)[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocabulary_size": 102}, "data.operation: addition needs a vocabulary_size of at least 103, got 102"),
        ({"max_length": 6}, "data.max_length: expected 5, the tokens of an equation, got 6"),
        ({"train_fraction": 0.0}, "data.train_fraction: 0.0 leaves no equation for training or validation"),
    ],
)
def test_sizes_without_room_are_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        Equations(operation="addition", **SIZES | change)
