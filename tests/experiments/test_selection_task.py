"""Hard and soft selection: gradients of the surrogate loss against an enumeration of all choices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.experiments.lectures.attention_layer.lookup_ladder import Layer, Lookup, draw, measure_lookup
from attention_research.experiments.lectures.hard_attention.selection_task import (
    MODES,
    Keyed,
    costs,
    loss,
    measure_selection,
)
from attention_research.experiments.lectures.laws.selection import measure_reinforce
from attention_research.layers.structure import split

SIZES = Lookup(items=3, address=4, classes=2)


@pytest.fixture(scope="module")
def layer():
    structure, parameters, _ = split(Layer(SIZES, "scaled_dot", "keys_values", rngs=nnx.Rngs(0)))
    return structure, parameters


def keyed(seed, batch=5):
    return Keyed(draw(SIZES, jax.random.key(0), jax.random.key(seed), batch), jax.random.key(100 + seed))


@pytest.mark.slow
def test_the_requested_item_is_in_the_shuffled_memory():
    batch = draw(SIZES, jax.random.key(0), jax.random.key(1), 200)
    assert batch.memory.shape == (200, 3, 6) and set(np.unique(batch.wanted)) == {0, 1}
    again = draw(SIZES, jax.random.key(0), jax.random.key(1), 200)
    np.testing.assert_array_equal(batch.memory, again.memory)
    # The rotation preserves lengths, and a query has the length of its item's address only.
    lengths = np.square(np.asarray(batch.memory)).sum(-1) - SIZES.classes
    nearest = np.abs(lengths - np.square(np.asarray(batch.query)).sum(-1, keepdims=True)).min(axis=1)
    np.testing.assert_allclose(nearest, 0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["reinforce", "reinforce_baseline"])
def test_the_mean_gradient_is_that_of_the_expected_cost(layer, mode):
    structure, parameters = layer
    batch = keyed(3).batch
    one = lambda parameters, key: loss(structure.merge(parameters), mode, Keyed(batch, key))
    keys = jax.random.split(jax.random.key(9), 20_000)
    draws = jax.jit(jax.vmap(lambda key: jax.grad(one)(parameters, key)["key.kernel"]))(keys)

    def expected(parameters):
        module = structure.merge(parameters)
        weights = jax.nn.softmax(module.scores(batch.query[:, None], module.key(batch.memory))[:, 0])
        logits = module.classifier(module.value(batch.memory))
        each = -jnp.take_along_axis(jax.nn.log_softmax(logits), batch.wanted[:, None, None], axis=-1)[..., 0]
        return jnp.mean(jnp.sum(weights * each, axis=-1))

    want = jax.grad(expected)(parameters)["key.kernel"]
    errors = np.asarray(draws).std(axis=0) / len(keys) ** 0.5
    z = np.abs(np.asarray(draws).mean(axis=0) - want) / np.maximum(errors, 1e-9)
    assert np.abs(want).max() > 10 * errors.max() and z.max() < 4.5, z.max()


@pytest.mark.parametrize("mode", MODES)
def test_the_loss_is_the_mean_cost(layer, mode):
    structure, parameters = layer
    module = structure.merge(parameters)
    cost, log_prob = costs(module, mode, keyed(1), training=True)
    np.testing.assert_allclose(loss(module, mode, keyed(1)), np.mean(cost), rtol=1e-5)
    assert (np.asarray(log_prob) < 0).all() == (mode != "soft")


def test_keys_get_a_gradient_from_soft_attention_not_from_argmax(layer):
    structure, parameters = layer
    given = keyed(1)
    of = lambda mode: jax.jit(jax.grad(lambda p: loss(structure.merge(p), mode, given)))(parameters)
    hard, soft = of("argmax"), of("soft")
    assert not np.asarray(hard["key.kernel"]).any() and np.asarray(hard["value.kernel"]).any()
    assert np.asarray(soft["key.kernel"]).any()


@pytest.mark.slow
def test_reinforces_mean_is_the_enumerated_gradient():
    found = measure_reinforce(samples=4000, seed=1)
    assert found["largest_z"] < 4.5 and found["variance_with_baseline"] < found["variance"]
    assert len(found["exact"]) == 7 and abs(sum(found["exact"])) < 1e-12, "a softmax ignores a shift of all scores"


@pytest.mark.slow
def test_the_measure_reports_accuracy_and_speed():
    sizes = {**SIZES._asdict(), "batch_size": 32, "seed": 0}
    found = measure_selection(mode="soft", steps=400, rates=(0.0, 0.02), target=0.5, **sizes)
    assert found["rate"] == 0.02
    assert found["accuracy"] > 0.8 and len(found["curve"]) == 20 and found["curve"][-1] < 0.5
    assert 0 < found["steps"] <= 400 and found["of_squares"] > 0
    never = measure_selection(mode="argmax", steps=40, rates=(0.01,), target=0.0, **sizes)
    assert never["steps"] is None and never["variance"] == 0.0 and never["of_squares"] is None


@pytest.mark.slow
def test_unknown_scores_are_named():
    with pytest.raises(ValueError, match="'neither': expected one of dot, scaled_dot"):
        measure_lookup(score="neither", projections="none", steps=1, batch_size=1, rates=(0.1,), seed=0)
