"""Placed digits: label and cell against the content that is read from the pixels alone."""

import handmade_digits
import numpy as np
import pytest
from reading_collages import seen

from attention_research.config import ConfigError
from attention_research.data.placed_digits import PlacedDigits

SIZES = {"side": 45, "train_examples": 61, "validation_examples": 17, "test_examples": 23}


@pytest.fixture(autouse=True)
def digits(data_home, tmp_path, monkeypatch):
    """Squares in place of digits."""
    handmade_digits.lay(tmp_path, monkeypatch)


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_the_label_is_the_coloured_digit_and_its_cell(split):
    data = PlacedDigits(**SIZES, clutter=0.9)
    assert data.sizes()[split] == SIZES[f"{split}_examples"]
    labels = set()
    for ids, batch in data.evaluation_batches(split, 7):
        for picture, image, label, cell in zip(ids, *map(batch.get, ("image", "label", "cells")), strict=True):
            if picture < 0:
                assert not image.any() and (label, cell) == (-1, 0)
                continue
            (there,) = (one for one in seen(image, 3) if one.colour != "grey")
            assert (there.digit, there.cell) == (label, cell) and there.split == split
            labels.add(int(label))
    assert len(labels) > 5


def test_batches_are_a_function_of_seed_and_step():
    one, other = PlacedDigits(**SIZES), PlacedDigits(**SIZES)
    batch = one.batch_at(3, 5, 8)
    assert batch["image"].dtype == np.uint8 and batch["image"].shape == (8, 45, 45, 3)
    for name, array in batch.items():
        np.testing.assert_array_equal(array, other.batch_at(3, 5, 8)[name])
    assert np.any(batch["image"] != one.batch_at(4, 5, 8)["image"])
    assert {name: array.shape for name, array in batch.items()} == one.train_shapes(8)[0]
    assert one.fingerprint != PlacedDigits(**{**SIZES, "clutter": 0.1}).fingerprint


def test_grey_pictures_are_refused():
    with pytest.raises(ConfigError, match="data.channels: these pictures are in colours: 3, not 1"):
        PlacedDigits(**SIZES, channels=1)
