"""Associative recall with labels at the queries, against a reading of the released generator with its own draws."""

import numpy as np
import pytest

from attention_research.config import ConfigError
from attention_research.data.associative_recall import AssociativeRecall, distinct, drawn

T, K, V, N = 26, 3, 34, 4000
SIZES = {"max_length": T, "vocabulary_size": V, "pairs": K, "train_examples": 97, "held_out": 23}


def released(random, length, pairs, vocabulary_size, power):
    """(inputs [N], labels [N], -100 without one) of one row, with NumPy's choice without replacement."""
    keys = random.choice(np.arange(1, vocabulary_size // 2), pairs, replace=False)
    values = random.choice(np.arange(vocabulary_size // 2, vocabulary_size), pairs, replace=False)
    context, space = 2 * pairs, (length - 2 * pairs) // 2
    p = power * np.arange(1, space + 1) ** (power - 1)
    gaps = random.choice(space, pairs, replace=False, p=p / p.sum())
    inputs, labels = np.zeros(length, int), np.full(length, -100)
    inputs[0:context:2], inputs[1:context:2] = keys, values
    for key, value, gap in zip(keys, values, gaps, strict=True):
        inputs[context + 2 * gap], labels[context + 2 * gap] = key, value
    return inputs, labels


def laid_out(batch):
    """(inputs, labels) in the form of the released code."""
    labels = np.full(batch["source"].shape, -100)
    np.put_along_axis(labels, batch["places"], batch["target"], axis=1)
    return batch["source"], labels


def test_every_row_has_the_form_of_the_released_code():
    for split in ("train", "validation", "test"):
        batch = AssociativeRecall(**SIZES).arrays(split)
        assert {array.dtype for array in batch.values()} == {np.dtype(np.int32)} and (batch["answers"] == 1).all()
        for inputs, labels in zip(*laid_out(batch), strict=True):
            keys, values = inputs[0 : 2 * K : 2], inputs[1 : 2 * K : 2]
            assert len(set(keys)) == len(set(values)) == K
            assert 1 <= keys.min() and keys.max() < V // 2 <= values.min() and values.max() < V
            (asked,) = np.nonzero(labels != -100)
            assert len(asked) == K and (asked >= 2 * K).all() and not (asked % 2).any()
            answers = dict(zip(keys, values, strict=True))
            assert [answers[inputs[place]] for place in asked] == labels[asked].tolist()
            rest = np.delete(inputs, [*range(2 * K), *asked])
            assert not rest.any()


@pytest.mark.parametrize("power", [0.01, 0.6])
def test_the_distribution_is_that_of_the_released_code(power):
    """The words of each pair, the place of each key in the order of the pairs, and the pairs of places."""
    sizes = {"length": T, "pairs": K, "vocabulary_size": V, "power": power}
    random = np.random.RandomState(123)
    theirs = [released(random, **sizes) for _ in range(N)]
    inputs, labels = (np.stack(side) for side in zip(*theirs, strict=True))
    ours, our_labels = laid_out(drawn(np.random.default_rng(1), N, **sizes))
    for column in range(2 * K):
        count = lambda rows, column=column: np.bincount(rows[:, column], minlength=V) / N
        np.testing.assert_allclose(count(ours), count(inputs), atol=0.025)
    for key in range(K):  # where the key of each pair is asked for
        where = lambda rows, key=key: (rows[:, 2 * K :] == rows[:, 2 * key, None]).mean(0)
        np.testing.assert_allclose(where(ours), where(inputs), atol=0.035)
    together = lambda found: (found.T.astype(float) @ found) / N
    np.testing.assert_allclose(together(our_labels != -100), together(labels != -100), atol=0.035)


def test_words_are_different_and_uniform():
    words = distinct(np.random.default_rng(0), 5 * N, 2, 3, 7)
    counts = np.zeros((4, 4))
    np.add.at(counts, tuple(words.T - 3), 1)
    expected = (1 - np.eye(4)) / 12
    np.testing.assert_allclose(counts / len(words), expected, atol=0.01)


def test_as_many_words_as_there_are():
    """A row of 24 draws has 24 different words once in a billion times. Permutations are uniform too."""
    words = distinct(np.random.default_rng(0), 5 * N, 24, 3, 27)
    np.testing.assert_array_equal(np.sort(words, axis=1), np.tile(np.arange(3, 27), (5 * N, 1)))
    np.testing.assert_allclose([(words[:, 0] == word).mean() for word in range(3, 27)], 1 / 24, atol=0.01)
    some = distinct(np.random.default_rng(1), 5 * N, 20, 3, 27)
    assert all(len(set(row)) == 20 for row in some[:99]) and set(some.ravel()) == set(range(3, 27))


def test_the_published_sizes():
    data = AssociativeRecall(max_length=64, vocabulary_size=8192, pairs=4)
    assert data.numbers == {"train": 100_000, "validation": 3000, "test": 3000} and data.chance == 0.25
    test = data.arrays("test")
    assert test["source"].shape == (3000, 64) and test["source"].max() > 8000


def test_batches_have_the_shapes_that_are_said():
    data = AssociativeRecall(**SIZES).prepare()
    (shapes,) = data.train_shapes(5)
    batch = data.batch_at(seed=3, step=2, batch_size=5)
    assert {name: array.shape for name, array in batch.items()} == shapes
    ids, filled = list(data.evaluation_batches("test", 10))[-1]
    np.testing.assert_array_equal(filled["answers"].all(1), ids >= 0)
    assert "97 rows of 26 words" in data.describe()


def test_other_settings_give_other_rows():
    changes = ({}, {"pairs": 2}, {"power": 0.5}, {"vocabulary_size": 32}, {"max_length": 28}, {"train_examples": 96},
               {"held_out": 22})  # fmt: skip
    prints = [AssociativeRecall(**SIZES | change).fingerprint for change in changes]
    assert len(set(prints)) == 7 and AssociativeRecall(**SIZES).fingerprint == prints[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_length": 10}, "data.pairs: 3 pairs and as many queries need an even max_length of at least 12; got 10"),
        ({"max_length": 27}, "data.pairs: 3 pairs and as many queries need an even max_length of at least 12; got 27"),
        ({"vocabulary_size": 7}, "3 of them need at least 8 words; got 7"),
    ],
)
def test_sizes_without_room_are_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        AssociativeRecall(**SIZES | change)
