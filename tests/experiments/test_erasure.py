"""Erasure against two forward passes, saliency against a table row's gradient, sums by hand, SciPy's correlation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from attention_research.config import build_model
from attention_research.experiments.lectures.interpretability import erasure
from attention_research.experiments.lectures.static_attention import token_weights
from attention_research.layers.structure import abstract

B, S, T, V = 2, 7, 5, 17
MODELS = {
    "transformer": {"num_heads": 3, "num_layers": 2, "feed_forward": {"hidden_width": 13}},
    "recurrent": {
        "cell": {"kind": "vanilla"}, "decoder": {"kind": "luong", "input_feeding": False},
        "alignment": {"kind": "global", "score": {"kind": "general"}},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    source, target = rng.integers(4, V, (B, S)), rng.integers(4, V, (B, T))
    source[1, 5:], target[1, 3:] = 0, 0
    return {"source": jnp.asarray(source, jnp.int32), "target": jnp.asarray(target, jnp.int32)}


@pytest.fixture(scope="module", params=[pytest.param("transformer", marks=pytest.mark.slow), "recurrent"])
def looked(request, batch):
    """(structure, parameters, (weights, effects, saliency))."""
    section = {"kind": request.param, "width": 12, "dropout_rate": 0.0, **MODELS[request.param]}
    constructor = build_model(section, max_length=7, vocabulary_size=V)
    structure, shapes, _ = abstract(lambda rngs: constructor(rngs=rngs))
    rng = np.random.default_rng(1)
    parameters = {name: jnp.asarray(0.5 * rng.standard_normal(x.shape), x.dtype) for name, x in shapes.items()}

    @jax.jit
    def look(parameters):
        model = structure.merge(parameters)
        weights = erasure.source_weights(model.log_likelihood(batch)[1])
        return weights, erasure.erasure_effects(model, batch), erasure.saliency(model, batch)

    return structure, parameters, tuple(np.asarray(x) for x in look(parameters))


def test_weights_are_over_the_real_source(looked, batch):
    weights = looked[2][0]
    real = np.asarray(batch["source"]) != 0
    assert weights.shape == (B, T, S)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert np.all(weights[1][:, ~real[1]] == 0)


def test_an_effect_is_the_difference_of_two_forward_passes(looked, batch):
    structure, parameters, (_, effects, _) = looked
    source = np.asarray(batch["source"]).copy()
    source[:, 2] = 0
    priced = jax.jit(lambda s: structure.merge(parameters).log_likelihood({**batch, "source": s})[0]["log_likelihood"])
    prices = [priced(jnp.asarray(s)) for s in (batch["source"], source)]
    np.testing.assert_allclose(effects[:, :, 2], prices[0] - prices[1], atol=1e-5)
    assert effects.shape == (B, T, S) and np.all(effects[1, :, 5:] == 0) and np.all(effects[0] != 0)


def test_saliency_is_the_gradient_in_one_source_embedding(looked, batch):
    """The token occurs once, so its embedding changes with its row of a source table that nothing else reads."""
    structure, parameters, (_, _, found) = looked
    assert found.shape == (B, T, S) and np.all(found[1, :, 5:] == 0) and np.all(found[0] > 0)
    if "vocabulary.source_table" not in parameters:
        return
    source, name = np.asarray(batch["source"]), "vocabulary.source_table"
    j = next(j for j in range(S) if (source[0] == source[0, j]).sum() == 1)

    def price(row):
        moved = {**parameters, name: parameters[name].at[source[0, j]].set(row)}
        return structure.merge(moved).log_likelihood(batch)[0]["log_likelihood"][0, 3]

    gradient = jax.jit(jax.grad(price))(parameters[name][source[0, j]])
    np.testing.assert_allclose(found[0, 3, j], np.linalg.norm(gradient), rtol=1e-4)


def test_rank_correlation_is_scipys():
    rng = np.random.default_rng(2)
    for _ in range(5):
        first, second = rng.integers(0, 6, 11).astype(float), rng.standard_normal(11)
        want = stats.spearmanr(first, second).statistic
        assert abs(erasure.rank_correlation(first, second) - want) < 1e-12
        np.testing.assert_allclose(token_weights.ranks(first), stats.rankdata(first))
    assert erasure.rank_correlation(np.ones(5), np.arange(5.0)) == 0


def test_the_summary_of_one_token_by_hand():
    source, target = np.array([[5, 6, 7, 8, 0]]), np.array([[9, 0]])
    weights = np.array([[[0.1, 0.6, 0.2, 0.1, 0.0], [0.9, 0, 0, 0, 0]]])
    effects = np.array([[[1.0, 4.0, 2.0, 0.0, 99.0], [99.0] * 5]])
    reliance = erasure.Reliance()
    reliance.add(weights, effects, effects * 2, source, target)
    reliance.add(weights[:, :, :3], effects[:, :, :3], effects[:, :, :3], source[:, :3], target)  # too short to rank
    found = reliance.summary()
    assert found["target_tokens"] == 1 and found["most_attended"] == 4.0 and found["random"] == 1.0
    assert found["larger"] == 1.0 and found["by_rank"][:4] == [4.0, 2.0, 1.0, 0.0] and found["by_rank"][4] is None
    want = stats.spearmanr([0.1, 0.6, 0.2, 0.1], [1, 4, 2, 0]).statistic
    assert abs(found["with_saliency"] - want) < 1e-12 and abs(found["with_erasure"] - want) < 1e-12


def test_columns_with_only_padding_are_removed():
    tokens = np.zeros((2, 40), int)
    tokens[0, :17] = 5
    assert erasure.cut(tokens).shape == (2, 32) and erasure.cut(tokens[:, :20]).shape == (2, 20)
