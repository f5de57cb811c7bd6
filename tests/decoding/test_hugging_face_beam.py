"""Beam search with Hugging Face's rules against a search by hand on the table model (`generate`: see tests/models)."""

import jax
import numpy as np
import pytest
from table_model import BOS, EOS, TableModel, batch_of

from attention_research.decoding import HuggingFaceBeamSearch

SOURCES = [[5, 3, 4, 2], [4, 2], [3, 3, 3, 6, 5, 2], [6, 5, 4, 3, 5, 6, 2], [6, 2]]
MAX_LENGTH, EXTRA = 13, 8


def by_hand(model, source, *, beam_size, length_penalty, early_stopping, forced_eos):
    """([(score, tokens)], best first, the number of steps), with lists and floats in the order of `generate`."""
    limit = min(len(source) + EXTRA, MAX_LENGTH)
    live, finished, steps = [(0.0, [])], [], 0
    for length in range(1, limit + 1):
        steps += 1
        extensions = []
        for log_probability, prefix in live:
            following = model.next_log_probabilities(source, prefix)
            if forced_eos and length == limit:
                extensions.append((log_probability, [*prefix, EOS]))
                continue
            for token in set(range(len(following))) - {0, BOS}:
                extensions.append((log_probability + following[token], [*prefix, token]))
        extensions.sort(key=lambda x: -x[0])
        at_limit = length == limit
        finished += [(p / length**length_penalty, y) for p, y in extensions[:beam_size] if y[-1] == EOS or at_limit]
        finished = sorted(finished, key=lambda x: -x[0])[:beam_size]
        live = [] if at_limit else [(p, y) for p, y in extensions if y[-1] != EOS][:beam_size]
        if len(finished) == beam_size and live:
            guessed = limit if early_stopping == "never" and length_penalty > 0 else length
            if early_stopping is True or live[0][0] / guessed**length_penalty <= finished[-1][0]:
                break
    return finished, steps


def searching(model, **settings):
    """A function from a batch to the search results."""
    search = HuggingFaceBeamSearch(extra_length=EXTRA, **settings)
    return jax.jit(lambda source: search(model, source, max_length=MAX_LENGTH))


def decode(model, sources, **settings):
    return searching(model, **settings)(batch_of(sources))


CASES = {
    "defaults": dict(length_penalty=1.0, early_stopping=False, forced_eos=False),
    "first_come": dict(length_penalty=0.6, early_stopping=True, forced_eos=False),
    "bound": dict(length_penalty=0.5, early_stopping="never", forced_eos=True),
    "bound_without_penalty": dict(length_penalty=0.0, early_stopping="never", forced_eos=False),
    "short_is_better": dict(length_penalty=-1.5, early_stopping="never", forced_eos=False),
}


@pytest.mark.parametrize("case", list(CASES))
def test_is_the_search_by_hand(case):
    """Hypotheses and scores are equal. The number of steps is that of the slowest row."""
    steps = []
    model = TableModel(11, seed=7, eos=0.5, on_step=lambda: steps.append(1))
    settings = dict(CASES[case], beam_size=3)
    decoded = jax.block_until_ready(decode(model, SOURCES, **settings))
    jax.effects_barrier()
    results = [by_hand(model, source, **settings) for source in SOURCES]
    assert len(steps) == max(steps_of_row for _, steps_of_row in results) and len({n for _, n in results}) > 3
    cut = 0
    for row, (expected, _) in enumerate(results):
        assert len(expected) == 3
        for rank, (score, tokens) in enumerate(expected):
            length = int(decoded.lengths[row, rank])
            assert np.asarray(decoded.tokens[row, rank]).tolist() == tokens + [0] * (MAX_LENGTH - len(tokens))
            assert length == len(tokens)
            np.testing.assert_allclose(decoded.scores[row, rank], score, rtol=1e-5)
            log_probability = score * length ** settings["length_penalty"]
            np.testing.assert_allclose(decoded.log_probabilities[row, rank], log_probability, rtol=1e-5)
            cut += tokens[-1] != EOS
    assert len(np.unique(decoded.lengths)) > 2 and not (settings["forced_eos"] and cut)


@pytest.mark.parametrize("case", ["defaults", pytest.param("first_come", marks=pytest.mark.slow)])
def test_a_row_depends_on_no_other_row(case):
    model, settings = TableModel(11, seed=17, eos=0.5), dict(CASES[case], beam_size=3)
    run = searching(model, **settings)
    together = run(batch_of(SOURCES))
    for row, source in enumerate(SOURCES):
        for one, all_rows in zip(run(batch_of([source], 9)), together, strict=True):
            np.testing.assert_array_equal(one[0], all_rows[row])
