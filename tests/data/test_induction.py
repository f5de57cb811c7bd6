"""Rows with one trigger inside and one at the end: the answer by a search in the text, and the trigger's places."""

import numpy as np
import pytest

from attention_research.config import ConfigError
from attention_research.data.induction import TRIGGER, Induction, rows

SIZES = {"max_length": 13, "vocabulary_size": 31, "symbols": 7, "held_out": 23}


def test_the_answer_is_the_token_after_the_trigger():
    made = rows(np.random.default_rng(3), 500, 13, 7)
    assert all(array.dtype == np.int32 for array in made.values())
    assert made["answers"][:, -1].all() and not made["answers"][:, :-1].any()
    places = []
    for before, target in zip(made["target_before"].tolist(), made["target"].tolist(), strict=True):
        *read, answer = [before, *target]
        assert len(read) == 13 and read[-1] == TRIGGER and read.count(TRIGGER) == 2
        places.append(read.index(TRIGGER))
        assert answer == read[places[-1] + 1] != TRIGGER
    others = np.concatenate([made["target_before"][:, None], made["target"]], axis=1)
    assert set(others.ravel().tolist()) == set(range(TRIGGER, TRIGGER + 7))
    assert set(places) == set(range(11))  # no trigger directly before the last token


def test_training_rows_are_new_in_each_batch_and_those_of_validation_are_not():
    data = Induction(**SIZES).prepare()
    (shapes,) = data.train_shapes(6)
    batches = [data.batch_at(0, step, 6) for step in range(3)]
    assert all({name: array.shape for name, array in batch.items()} == shapes for batch in batches)
    assert len({batch["target"].tobytes() for batch in batches}) == 3
    np.testing.assert_array_equal(data.batch_at(0, 2, 6)["target"], batches[2]["target"])
    halves = [data.batch_at(0, 1, 6, host, 2)["target_before"] for host in (0, 1)]
    np.testing.assert_array_equal(np.concatenate(halves), batches[1]["target_before"])
    ids = np.concatenate([ids for ids, _ in data.evaluation_batches("validation", 5)])
    assert ids.tolist() == [*range(23), -1, -1] and data.sizes() == {"validation": 23}
    prints = [Induction(**SIZES | change).fingerprint for change in ({}, {"symbols": 8}, {"max_length": 12})]
    assert len(set(prints)) == 3 and data.fingerprint == prints[0]
    assert "new rows of 13 tokens" in data.describe() and data.chance == 1 / 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_length": 2}, "data.max_length: expected at least 3, got 2"),
        ({"symbols": 28}, "data.symbols: expected 2 to vocabulary_size - 4 = 27, got 28"),
    ],
)
def test_sizes_without_room_are_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        Induction(**SIZES | change)
