"""Beam search against exhaustive enumeration, against a search by hand, and against itself in other batches."""

import jax
import numpy as np
import pytest
from table_model import TableModel, batch_of, beam_by_hand, hypothesis, penalty

from attention_research.decoding import BeamSearch, Greedy

SOURCES = [[5, 3, 4, 2], [4, 2], [3, 3, 3, 6, 5, 2], [6, 5, 4, 3, 5, 6, 2], [6, 2]]


def searching(model, *, max_length, **settings):
    """A function from a batch to the search results."""
    search = BeamSearch(**settings)
    return jax.jit(lambda source: search(model, source, max_length=max_length))


def decode(model, sources, **settings):
    return searching(model, **settings)(batch_of(sources))


def assert_is(decoded, row, rank, expected):
    score, log_probability, tokens = expected
    assert hypothesis(decoded, row, rank) == tokens
    np.testing.assert_allclose(decoded.scores[row, rank], score, rtol=1e-5)
    np.testing.assert_allclose(decoded.log_probabilities[row, rank], log_probability, rtol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.7])
def test_a_beam_as_wide_as_the_tree_is_exhaustive(alpha):
    model, limit = TableModel(6, seed=1), 5
    sources = [source for source in SOURCES if len(source) <= 4]
    decoded = decode(model, sources, max_length=limit, beam_size=121, alpha=alpha, exact="all", extra_length=4)
    first = decode(model, sources, max_length=limit, beam_size=121, alpha=alpha, extra_length=4)
    for row, source in enumerate(sources):
        every = model.every_hypothesis(source, limit)
        assert len(every) == 121
        prices = [model.log_probability(source, y) for y in every]
        ranked = sorted(((p / penalty(len(y), alpha), p, y) for p, y in zip(prices, every, strict=True)), reverse=True)
        for rank, expected in enumerate(ranked):
            assert_is(decoded, row, rank, expected)
        assert_is(first, row, 0, ranked[0])
        np.testing.assert_allclose(np.exp(decoded.log_probabilities[row, 0]), np.exp(ranked[0][1]), rtol=1e-5)


#: Every size, penalty and length once or twice. The other combinations are slow tests.
QUICK = ("1-0.6-short", "2-0.0-long", "2-2.0-short", "5-0.0-short", "5-0.6-long")
CASES = {
    f"{size}-{alpha}-{name}": (size, alpha, eos)
    for name, eos in (("short", 0.0), ("long", -2.0))
    for alpha in (0.0, 0.6, 2.0)
    for size in (1, 2, 5)
}


@pytest.mark.parametrize(
    ("beam_size", "alpha", "eos"),
    [pytest.param(*case, id=name, marks=[pytest.mark.slow] * (name not in QUICK)) for name, case in CASES.items()],
)
def test_a_narrow_beam_is_the_search_by_hand_to_the_limit(beam_size, alpha, eos):
    model = TableModel(11, seed=7, eos=eos)
    settings = dict(max_length=17, beam_size=beam_size, alpha=alpha, extra_length=9)
    best, every = (decode(model, SOURCES, exact=exact, **settings) for exact in ("best", "all"))
    assert every.tokens.shape == (5, beam_size, 17) and every.scores.dtype == np.float32
    for row, source in enumerate(SOURCES):
        ranked = beam_by_hand(model, source, min(len(source) + 9, 17), beam_size, alpha)
        assert_is(best, row, 0, ranked[0])
        assert int((every.lengths[row] > 0).sum()) == len(ranked)
        for rank, expected in enumerate(ranked):
            assert_is(every, row, rank, expected)


@pytest.mark.parametrize(("exact", "at_least"), [("best", 5), ("all", 20)])
def test_every_reported_score_is_the_recomputed_one(exact, at_least):
    model = TableModel(13, seed=11, eos=-1.0)
    decoded = decode(model, SOURCES, max_length=19, beam_size=4, alpha=0.6, extra_length=11, exact=exact)
    checked = 0
    for row, source in enumerate(SOURCES):
        assert np.all(np.diff(np.nan_to_num(np.asarray(decoded.scores[row]), neginf=-1e9)) <= 0)
        for rank in range(4):
            if decoded.lengths[row, rank] == 0:
                assert decoded.scores[row, rank] == -np.inf and not np.any(decoded.tokens[row, rank])
                continue
            tokens = hypothesis(decoded, row, rank)
            price = model.log_probability(source, tokens)
            assert_is(decoded, row, rank, (price / penalty(len(tokens), 0.6), price, tokens))
            checked += 1
    assert checked >= at_least


@pytest.mark.parametrize("exact", ["best", "all"])
def test_width_one_without_penalty_is_greedy(exact):
    model = TableModel(11, seed=13, eos=-1.0)
    beam = decode(model, SOURCES, max_length=23, beam_size=1, alpha=0.0, extra_length=13, exact=exact)
    greedy = jax.jit(lambda source: Greedy(extra_length=13)(model, source, max_length=23))(batch_of(SOURCES))
    for one, other in zip(beam, greedy, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(set(np.asarray(beam.lengths).ravel().tolist())) > 1


@pytest.mark.parametrize("exact", ["best", "all"])
def test_a_row_depends_on_no_other_row_nor_on_padding(exact):
    model = TableModel(11, seed=17, eos=-1.0)
    settings = dict(max_length=23, beam_size=3, alpha=0.6, extra_length=13, exact=exact)
    run, order = searching(model, **settings), [3, 0, 4, 1, 2]
    alone = [run(batch_of([source], 7)) for source in SOURCES]
    together = run(batch_of([SOURCES[i] for i in order] + [[], []], 19))
    for row, i in enumerate(order):
        for one, all_rows in zip(alone[i], together, strict=True):
            np.testing.assert_array_equal(one[0], all_rows[row])
    assert hypothesis(together, 5) == [2] and together.lengths[5].tolist() == [1, 0, 0]


def test_limits_are_each_rows_own_and_never_above_the_maximum():
    model = TableModel(11, seed=19, eos=-30.0)
    decoded = decode(model, SOURCES, max_length=8, beam_size=3, alpha=0.6, extra_length=3)
    np.testing.assert_array_equal(decoded.lengths, np.array([7, 5, 8, 8, 5])[:, None].repeat(3, 1))
    for row, source in enumerate(SOURCES):
        for rank in range(3):
            price = model.log_probability(source, hypothesis(decoded, row, rank))
            assert price < -25
            np.testing.assert_allclose(decoded.log_probabilities[row, rank], price, rtol=1e-5)


def test_a_higher_penalty_gives_longer_hypotheses():
    model = TableModel(11, seed=23)
    short, long = (decode(model, SOURCES, max_length=17, beam_size=5, alpha=a, extra_length=9) for a in (0.0, 4.0))
    assert int(long.lengths[:, 0].sum()) > int(short.lengths[:, 0].sum())


def test_stops_as_soon_as_no_live_prefix_can_win():
    steps = []
    model = TableModel(11, seed=29, eos=8.0, on_step=lambda: steps.append(1))
    jax.block_until_ready(decode(model, SOURCES, max_length=47, beam_size=4, alpha=0.6, extra_length=50))
    jax.effects_barrier()
    assert len(steps) == 1


def test_a_model_that_gives_nan_still_ends():
    model = TableModel(11, seed=31)
    model.table[:] = np.nan
    decoded = decode(model, SOURCES, max_length=7, beam_size=2, extra_length=3)
    assert decoded.tokens.shape == (5, 2, 7)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="reads the program of XLA's CPU backend")
def test_no_vocabulary_is_sorted():
    search = jax.jit(lambda source: BeamSearch()(TableModel(1009), source, max_length=7))
    program = search.lower(batch_of(SOURCES)).compile().as_text()
    assert 'custom_call_target="TopK"' in program and " sort(" not in program
