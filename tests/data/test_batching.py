"""Rows of tokens: the original sequences can be recovered, and segments and positions locate them."""

import numpy as np
import pytest

from attention_research.data.batching import Buckets, Packed, assemble, batch_shapes
from attention_research.data.plan import Step
from attention_research.data.tokens import TokenArray
from attention_research.registry import lookup

RANDOM = np.random.default_rng(5)


def sequences(count):
    return [[*RANDOM.integers(4, 89, size=RANDOM.integers(0, 19)).tolist(), 2] for _ in range(count)]


def test_a_hand_written_packed_batch():
    sources = TokenArray.join([[5, 6, 2], [7, 2], [8, 9, 10, 2]])
    targets = TokenArray.join([[15, 2], [16, 17, 2], [18, 2]])
    batch = assemble(Step(7, 6, ((0, 2), (1,), ())), sources, targets)
    expected = {
        "source": [[5, 6, 2, 8, 9, 10, 2], [7, 2, 0, 0, 0, 0, 0], [0] * 7],
        "source_segments": [[1, 1, 1, 2, 2, 2, 2], [1, 1, 0, 0, 0, 0, 0], [0] * 7],
        "source_positions": [[0, 1, 2, 0, 1, 2, 3], [0, 1, 0, 0, 0, 0, 0], [0] * 7],
        "target": [[15, 2, 18, 2, 0, 0], [16, 17, 2, 0, 0, 0], [0] * 6],
        "target_segments": [[1, 1, 2, 2, 0, 0], [1, 1, 1, 0, 0, 0], [0] * 6],
        "target_positions": [[0, 1, 0, 1, 0, 0], [0, 1, 2, 0, 0, 0], [0] * 6],
    }
    assert batch.keys() == expected.keys()
    for name, rows in expected.items():
        np.testing.assert_array_equal(batch[name], rows, err_msg=name)
        assert batch[name].dtype == np.int32


def test_a_sequence_that_is_too_long_is_cut_before_its_end():
    tokens = TokenArray.join([[5, 6, 7, 8, 2]])
    batch = assemble(Step(3, 5, ((0,),)), tokens, tokens)
    assert batch["source"].tolist() == [[5, 6, 2]] and batch["target"].tolist() == [[5, 6, 7, 8, 2]]


@pytest.mark.parametrize(
    "kind", [Buckets(boundaries=(7, 13), max_length=23), Packed(max_length=23)], ids=["buckets", "packed"]
)
def test_unpacking_is_the_inverse_of_packing(kind):
    sources, targets = sequences(101), sequences(101)
    arrays = TokenArray.join(sources), TokenArray.join(targets)
    plan = kind.plan(np.stack([array.lengths for array in arrays], axis=1), 3, 4)
    found = []
    for step in (plan[index] for index in range(plan.steps_per_epoch)):
        batch = assemble(step, *arrays)
        assert {name: value.shape for name, value in batch.items()} in [batch_shapes(4, *s) for s in kind.shapes()]
        for row in range(4):
            for segment in range(1, batch["source_segments"][row].max() + 1):
                pair = []
                for side in ("source", "target"):
                    inside = batch[f"{side}_segments"][row] == segment
                    pair.append(tuple(batch[side][row][inside].tolist()))
                    np.testing.assert_array_equal(batch[f"{side}_positions"][row][inside], np.arange(inside.sum()))
                    assert (np.diff(np.flatnonzero(inside)) == 1).all()
                found.append(tuple(pair))
        for side in ("source", "target"):
            padding = batch[f"{side}_segments"] == 0
            assert not batch[side][padding].any() and not batch[f"{side}_positions"][padding].any()
    expected = [(tuple(a), tuple(b)) for a, b in zip(sources, targets, strict=True)]
    assert sorted(found) == sorted(expected)


def test_boundaries_end_at_the_maximum():
    assert Buckets(boundaries=(16, 64, 32, 99), max_length=50).shapes() == ((16, 16), (32, 32), (50, 50))
    assert Buckets(boundaries=(16, 32), max_length=64).shapes() == ((16, 16), (32, 32), (64, 64))
    assert Packed(max_length=37).shapes() == ((37, 37),)
    assert Packed(max_length=37).evaluation_lengths() == (16, 24, 32, 37)


def test_packing_fills_rows():
    """The purpose of packing: short pairs need several times fewer rows than there are pairs."""
    lengths = RANDOM.integers(3, 20, size=(997, 2))
    rows = sum(
        len(step.rows) for step in map(Packed(max_length=64).plan(lengths, 0, 1).__getitem__, range(400)) if step
    )
    steps = Packed(max_length=64).plan(lengths, 0, 1).steps_per_epoch
    assert rows == 400 and steps < 1.2 * lengths.max(axis=1).sum() / 64


@pytest.mark.parametrize("family, kind", [("batching", "buckets"), ("batching", "packed"), ("data", "pairs")])
def test_the_registry_finds_the_kinds(family, kind):
    assert lookup(family, kind).__module__.startswith("attention_research.data.")
