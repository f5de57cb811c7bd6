"""Recall: every answer is the value of its key by a search in the text, places by their distribution, refused sizes."""

import numpy as np
import pytest

from attention_research.config import ConfigError
from attention_research.data.recall import FIRST, Recall, recalled
from attention_research.tokens import UNKNOWN

SIZES = {"max_length": 40, "vocabulary_size": 61, "pairs": 7, "train_examples": 97, "held_out": 23}
FIRST_VALUE = FIRST + (61 - FIRST) // 2


@pytest.mark.parametrize("random_fillers", [False, True])
def test_answers_follow_their_keys(random_fillers):
    data = Recall(**SIZES, random_fillers=random_fillers)
    for split, rows in (("train", 97), ("validation", 23), ("test", 23)):
        batch = data.arrays(split)
        assert batch["target"].shape == (rows, 40) and batch["target"].dtype == batch["answers"].dtype == np.int32
        for text, answers in zip(batch["target"].tolist(), batch["answers"], strict=True):
            value = dict(zip(text[0:14:2], text[1:14:2], strict=True))
            (places,) = np.nonzero(answers)
            asked = [text[place - 1] for place in places]
            assert [value[key] for key in asked] == [text[place] for place in places]
            assert sorted(asked) == sorted(value) and len(value) == 7
            assert all(place >= 15 and place % 2 for place in places) and set(answers) == {0, 1}
            assert all(FIRST <= key < FIRST_VALUE for key in value) and max(value.values()) < 61
            assert min(value.values()) >= FIRST_VALUE
            rest = [word for place, word in enumerate(text) if place >= 14 and not answers[place : place + 2].any()]
            assert (min(rest) >= FIRST) if random_fillers else (set(rest) == {UNKNOWN})


def test_batches_have_the_shapes_that_are_said_and_a_text_is_the_same_each_time():
    data = Recall(**SIZES).prepare()
    (shapes,) = data.train_shapes(5)
    batch = data.batch_at(seed=3, step=2, batch_size=5)
    assert {name: array.shape for name, array in batch.items()} == shapes
    halves = [Recall(**SIZES).batch_at(3, 2, 4, host, 2)["target"] for host in (0, 1)]
    np.testing.assert_array_equal(np.concatenate(halves), data.batch_at(3, 2, 4)["target"])
    filled = list(data.evaluation_batches("test", 10))[-1]
    assert filled[0].tolist()[3:] == [-1] * 7 and not filled[1]["answers"][3:].any()
    assert "97 rows of 40 tokens" in data.describe() and data.chance == 1 / 7


def test_other_settings_give_other_texts():
    changes = ({}, {"pairs": 6}, {"power": 0.5}, {"random_fillers": False}, {"vocabulary_size": 59}, {"max_length": 42})
    prints = [Recall(**SIZES | change).fingerprint for change in changes]
    assert len(set(prints)) == 6 and Recall(**SIZES).fingerprint == prints[0]


def test_places_follow_the_power_law():
    """The place of the first query drawn has probability i^(a - 1) / sum, here counted with one pair a row."""
    sizes = {"length": 22, "pairs": 1, "vocabulary_size": 31, "random_fillers": True}
    for power in (0.01, 1.0):
        answers = recalled(np.random.default_rng(5), 8000, power=power, **sizes)["answers"]
        counts = answers[:, 3::2].sum(0)
        expected = np.arange(1, 11) ** (power - 1)
        assert answers.sum() == 8000
        np.testing.assert_allclose(counts / 8000, expected / expected.sum(), atol=0.02)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_length": 26}, "data.pairs: 7 pairs and as many queries need an even max_length of at least 28; got 26"),
        ({"max_length": 41}, "data.pairs: 7 pairs and as many queries need an even max_length of at least 28; got 41"),
        ({"vocabulary_size": 17}, "vocabulary_size of at least 18; got 17"),
    ],
)
def test_sizes_without_room_are_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        Recall(**SIZES | change)
