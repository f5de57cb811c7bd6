"""Interventions on small models, the weights that they change, and the replacement of unknown words."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.analysis.teacher_forced import weights_of
from attention_research.config import build_model
from attention_research.experiments.bahdanau2015.interventions import ZeroStart, context_distance, shared_context
from attention_research.experiments.luong2015.unknown_words import replaced
from attention_research.layers.structure import abstract
from attention_research.tokens import EOS, UNKNOWN


def test_unknown_words_become_the_source_word_with_most_attention():
    weights = np.array([[0.1, 0.8, 0.1], [0.0, 0.1, 0.9], [0.7, 0.2, 0.1]])
    said = replaced(["<unk>", "<unk>", "voit"], [UNKNOWN, UNKNOWN, 9], ["Bafe", "sees"], weights)
    assert said == ["sees", "sees", "voit"]


def test_contexts_that_are_equal_have_no_distance():
    assert context_distance(np.ones((4, 3))) == 0.0
    assert context_distance(np.array([[3.0, 0.0], [0.0, 4.0]])) == pytest.approx(5.0 / 3.5)


@pytest.fixture(scope="module")
def small():
    """start kind -> (structure, parameters) of a small RNNsearch. NumPy parameters with equal names are equal."""

    def made(start):
        model = {
            "kind": "recurrent", "width": 7, "embedding_width": 5, "cell": {"kind": "gru"},
            "encoder": {"kind": "bidirectional"},
            "decoder": {"kind": "bahdanau", "readout_width": 3, "start": {"kind": start}},
            "alignment": {"kind": "global", "score": {"kind": "additive", "attention_width": 11}},
        }  # fmt: skip
        constructor = build_model(model, max_length=13, vocabulary_size=29)
        structure, shapes, _ = abstract(lambda rngs: constructor(rngs=rngs))
        value = lambda name, x: np.random.default_rng(sum(map(ord, name))).normal(size=x.shape) * 0.7
        return structure, {name: jnp.asarray(value(name, x), x.dtype) for name, x in shapes.items()}

    return made


def trained_of(structure, parameters):
    return SimpleNamespace(trainer=SimpleNamespace(structure=structure), model=lambda: (parameters, {}))


PAIRS = [[4, 5, 6, 7, EOS], [8, 9, EOS]], [[10, EOS], [11, 12, 13, EOS]]


@pytest.mark.slow
def test_weights_equal_those_of_each_pair_and_a_shared_context_is_uniform(small):
    structure, parameters = small("projected")
    trained = trained_of(structure, parameters)
    together = weights_of(trained, *PAIRS)
    assert [w.shape for w in together] == [(2, 5), (4, 3)]
    batch = {"source": jnp.asarray(PAIRS[0][1:]), "target": jnp.asarray(PAIRS[1][1:])}
    alone = jax.jit(lambda p: structure.merge(p).log_likelihood(batch)[1])(parameters)["decoder"]["alignment"][0]
    np.testing.assert_allclose(together[1], alone, atol=1e-6)
    assert together[1].max() > 0.4
    even = weights_of(trained, *PAIRS, (shared_context(parameters), {}))
    for weights, source in zip(even, PAIRS[0], strict=True):
        np.testing.assert_allclose(weights, 1 / len(source), atol=1e-6)


def test_a_zeroed_start_equals_a_model_that_starts_from_zeros(small):
    structure, parameters = small("projected")
    other, names = small("zeros")
    source = {"tokens": jnp.asarray([PAIRS[0][0], [8, 9, EOS, 0, 0]])}

    def first(model):
        cache = model.start(model.encode(source))
        return model.step(cache, jnp.asarray([1, 1]))[1]

    both = jax.jit(lambda p: (first(structure.merge(p)), first(ZeroStart(structure.merge(p)))))(parameters)
    kept = {name: parameters[name] for name in names}
    np.testing.assert_allclose(both[1], jax.jit(lambda p: first(other.merge(p)))(kept), atol=1e-6)
    assert float(jnp.abs(both[0] - both[1]).max()) > 0.01
