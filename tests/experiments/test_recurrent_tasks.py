"""The small recurrent networks: the inputs that each may depend on, and measures of what they learned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.experiments.lectures.recurrent.tasks import (
    Copier,
    Memory,
    Tagger,
    measure_copying,
    measure_pairs,
    measure_tagging,
)

TRAINED = {"symbols": 4, "steps": 400, "batch_size": 32, "rate": 0.02, "seed": 0}


@pytest.mark.slow
def test_a_copier_depends_on_its_source_and_its_output():
    copier, tokens = Copier(5, 7, rngs=nnx.Rngs(0)), jnp.array([[1, 2, 3, 4]])
    run = jax.jit(lambda tokens: copier(tokens))
    base = np.asarray(run(tokens))
    assert base.shape == (1, 4, 5)
    assert all(np.abs(np.asarray(run(tokens.at[0, t].set(0))) - base).max() > 1e-4 for t in range(4))


@pytest.mark.slow
@pytest.mark.parametrize("directions", [1, 2])
def test_a_tagger_sees_later_words_only_with_two_directions(directions):
    tagger, tokens = Tagger(5, 8, directions, rngs=nnx.Rngs(0)), jnp.array([[1, 2, 3, 4]])
    run = jax.jit(lambda tokens: tagger(tokens))
    change = np.abs(np.asarray(run(tokens.at[0, 2].set(0)) - run(tokens))).max(axis=(0, 2))
    assert (change[:2] > 1e-5).all() == (directions == 2) and (change[:2] == 0).all() == (directions == 1)
    assert (change[2:] > 1e-5).all()


@pytest.mark.slow
def test_order_of_pairs_matters_to_a_state_and_not_to_attention():
    keys, values, query = jnp.array([[0, 1, 2]]), jnp.array([[3, 4, 0]]), jnp.array([1])
    order = jnp.array([2, 0, 1])
    for kind, same in (("attention", True), ("rnn", False)):
        memory = Memory(kind, 5, 8, rngs=nnx.Rngs(0))
        run = jax.jit(lambda *given, memory=memory: memory(*given))
        gap = np.abs(np.asarray(run(keys[:, order], values[:, order], query) - run(keys, values, query))).max()
        assert (gap < 1e-5) == same, kind


@pytest.mark.slow
def test_short_texts_are_copied():
    found = measure_copying(width=16, lengths=(2, 3), **TRAINED)
    assert min(found["accuracies"]) > 0.9 and found["half"] is None and found["longest"] == found["accuracies"][-1]
    untrained = measure_copying(width=4, lengths=(8,), **{**TRAINED, "steps": 2})
    assert untrained["half"] == 8 and untrained["chance"] == 0.25


@pytest.mark.slow
def test_tags_from_ahead_need_the_second_direction():
    one, both = (
        measure_tagging(directions=n, tag_width=16, ahead=1, tag_length=6, tag_steps=TRAINED["steps"], **TRAINED)
        for n in (1, 2)
    )
    assert one["accuracy"] < 0.5 < 0.85 < both["accuracy"]


@pytest.mark.slow
def test_a_table_is_always_right_and_attention_finds_the_pair():
    table = measure_pairs(memory="table", pairs=(1, 3), width=16, **TRAINED)
    assert table["accuracies"] == [1.0, 1.0]
    attention = measure_pairs(memory="attention", pairs=(3,), width=16, **TRAINED)
    assert attention["most"] > 0.95
