"""Greedy decoding against a Python loop, its limits, and its independence of the batch."""

import jax
import numpy as np
import pytest
from table_model import TableModel, batch_of, greedy_by_hand, hypothesis

from attention_research.decoding import Greedy

SOURCES = [[5, 3, 4, 2], [4, 2], [3, 3, 3, 6, 5, 2], [6, 5, 4, 3, 5, 6, 2], [6, 2]]


def searching(model, *, extra_length, max_length):
    """A function from a batch to the search results."""
    return jax.jit(lambda source: Greedy(extra_length=extra_length)(model, source, max_length=max_length))


def decode(model, sources, *, extra_length, max_length):
    return searching(model, extra_length=extra_length, max_length=max_length)(batch_of(sources))


@pytest.mark.parametrize("eos", [0.0, -3.0], ids=["short", "long"])
def test_greedy_equals_a_python_loop(eos):
    model = TableModel(11, seed=1, eos=eos)
    decoded = decode(model, SOURCES, extra_length=13, max_length=29)
    assert decoded.tokens.shape == (5, 1, 29) and decoded.scores.dtype == np.float32
    for row, source in enumerate(SOURCES):
        expected = greedy_by_hand(model, source, len(source) + 13)
        assert hypothesis(decoded, row) == expected
        np.testing.assert_allclose(
            decoded.log_probabilities[row, 0], model.log_probability(source, expected), rtol=1e-5
        )
    np.testing.assert_array_equal(decoded.scores, decoded.log_probabilities)
    assert len(set(np.asarray(decoded.lengths).ravel().tolist())) > 1


def test_limits_force_eos_with_its_true_log_probability():
    model = TableModel(11, seed=2, eos=-30.0)
    decoded = decode(model, SOURCES, extra_length=3, max_length=8)
    assert decoded.lengths[:, 0].tolist() == [7, 5, 8, 8, 5]
    for row, source in enumerate(SOURCES):
        expected = model.log_probability(source, hypothesis(decoded, row))
        assert expected < -25
        np.testing.assert_allclose(decoded.log_probabilities[row, 0], expected, rtol=1e-5)


def test_pad_and_bos_are_never_taken():
    model = TableModel(5, seed=3, eos=-3.0)
    model.table[:, :2] = -1e-3
    decoded = decode(model, SOURCES, extra_length=7, max_length=17)
    for row, source in enumerate(SOURCES):
        tokens = hypothesis(decoded, row)
        assert min(tokens) >= 2 and tokens == greedy_by_hand(model, source, len(source) + 7)


def test_an_empty_row_ends_at_once_and_a_row_does_not_depend_on_the_others():
    model = TableModel(11, seed=4, eos=-1.0)
    run, order = searching(model, extra_length=13, max_length=23), [3, 0, 4, 1, 2]
    alone = [run(batch_of([source], 7)) for source in SOURCES]
    together = run(batch_of([SOURCES[i] for i in order] + [[]], 19))
    for row, i in enumerate(order):
        for one, all_rows in zip(alone[i], together, strict=True):
            np.testing.assert_array_equal(one[0], all_rows[row])
    assert hypothesis(together, 5) == [2]


def test_stops_when_every_row_has_ended():
    steps = []
    model = TableModel(11, seed=5, eos=30.0, on_step=lambda: steps.append(1))
    jax.block_until_ready(decode(model, SOURCES, extra_length=50, max_length=47))
    jax.effects_barrier()
    assert len(steps) == 1
