"""The recurrent translators' beam against a search by hand on the table model."""

import jax
import numpy as np
import pytest
from table_model import BOS, EOS, TableModel, batch_of, hypothesis

from attention_research.decoding import Greedy, ShrinkingBeamSearch

SOURCES = [[5, 3, 4, 2], [4, 2], [3, 3, 3, 6, 5, 2], [6, 5, 4, 3, 5, 6, 2], [6, 2]]
MAX_LENGTH, EXTRA = 13, 8


def by_hand(model, source, beam_size, normalized):
    """[(score, tokens)], best first. A complete hypothesis leaves the beam with its place."""
    limit = min(len(source) + EXTRA, MAX_LENGTH)
    live, complete = [(0.0, [])], []
    for length in range(1, limit + 1):
        tokens = [EOS] if length == limit else None
        extensions = [
            (price + following[token], [*prefix, token])
            for price, prefix in live
            for following in [model.next_log_probabilities(source, prefix)]
            for token in tokens or set(range(len(following))) - {0, BOS}
        ]
        best = sorted(extensions, key=lambda x: -x[0])[: beam_size - len(complete)]
        complete += [(p / len(y) if normalized else p, y) for p, y in best if y[-1] == EOS]
        live = [(p, y) for p, y in best if y[-1] != EOS]
        if not live:
            break
    return sorted(complete, key=lambda x: -x[0])


@pytest.mark.parametrize("normalized", [False, True], ids=["log_p", "per_word"])
def test_is_the_search_by_hand(normalized):
    model = TableModel(11, seed=3, eos=0.7)
    search = ShrinkingBeamSearch(beam_size=4, normalized=normalized, extra_length=EXTRA)
    found = jax.jit(lambda source: search(model, source, max_length=MAX_LENGTH))(batch_of(SOURCES))
    for row, source in enumerate(SOURCES):
        expected = by_hand(model, source, 4, normalized)
        assert [hypothesis(found, row, rank) for rank in range(len(expected))] == [y for _, y in expected]
        np.testing.assert_allclose(found.scores[row, : len(expected)], [s for s, _ in expected], rtol=1e-5)


def test_one_beam_is_greedy():
    model = TableModel(11, seed=5)
    one, greedy = ShrinkingBeamSearch(beam_size=1, extra_length=EXTRA), Greedy(extra_length=EXTRA)
    both = [jax.jit(lambda s, d=d: d(model, s, max_length=MAX_LENGTH))(batch_of(SOURCES)) for d in (one, greedy)]
    np.testing.assert_array_equal(both[0].tokens[:, 0], both[1].tokens[:, 0])
