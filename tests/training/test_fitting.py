"""Small fits: Adam's updates by hand, a fitted line, and a learning rate chosen on validation examples."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from attention_research.layers.linear import Linear
from attention_research.layers.structure import initializer
from attention_research.training.fitting import adam, descend, descend_with_state, fit, fit_best


def adam_by_hand(weights, inputs, rate, gradient):
    """Kingma & Ba 2015, algorithm 1, in float64."""
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step, x in enumerate(inputs, 1):
        slope = gradient(weights, x)
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        weights = weights - rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return weights


def test_there_is_one_adam_update_for_each_input():
    inputs = np.random.default_rng(0).standard_normal((17, 3))
    start = np.array([1.0, -2.0, 0.5])
    loss = lambda weights, x: jnp.sum((weights - x) ** 2)
    weights, losses = jax.jit(lambda x: descend(loss, jnp.asarray(start, jnp.float32), x, adam(0.1)))(inputs)
    by_hand = adam_by_hand(start, inputs, 0.1, lambda weights, x: 2 * (weights - x))
    np.testing.assert_allclose(weights, by_hand, rtol=1e-4)
    assert losses.shape == (17,) and float(losses[0]) == pytest.approx(np.sum((start - inputs[0]) ** 2), rel=1e-5)


def test_a_state_is_carried_and_has_no_gradient():
    """The loss is scaled by the running sum of the inputs.

    The weights depend on the sum, which is not a weight itself.
    """
    inputs = jnp.asarray([1.0, 2.0, 3.0])
    loss = lambda weights, total, x: (weights * (total + x), total + x)
    weights, total, losses = descend_with_state(loss, jnp.float32(2.0), jnp.float32(0.0), inputs, optax.sgd(0.5))
    assert float(total) == 6.0 and losses.tolist() == [2.0, 1.5 * 3, 0.0]
    assert float(weights) == 2.0 - 0.5 * (1 + 3 + 6)


@pytest.mark.slow
def test_a_fit_finds_a_line_and_starts_where_the_module_does():
    draw_points = lambda key: jax.random.normal(key, (32, 3))
    target = jnp.asarray([[1.0], [-2.0], [0.5]])
    loss = lambda module, x: jnp.mean((module(x) - (x @ target + 3.0)) ** 2)
    make = lambda rngs: Linear(3, 1, rngs=rngs)
    structure, parameters, losses = fit(make, loss, draw_points, jax.random.key(0), steps=600, learning_rate=0.1)
    np.testing.assert_allclose(parameters["kernel"], target, atol=1e-3)
    np.testing.assert_allclose(parameters["bias"], 3.0, atol=1e-3)
    first, rest = jax.random.split(jax.random.key(0))
    start, _ = initializer(make)(first)
    at_start = loss(structure.merge(start), draw_points(jax.random.split(rest, 600)[0]))
    np.testing.assert_allclose(losses[0], at_start, rtol=1e-5)


@pytest.mark.slow
def test_the_best_rate_is_that_of_the_lowest_finite_value_on_validation_examples():
    """The fit at the best rate is returned, whatever the training loss. Of equal values the first is taken."""
    points = jnp.ones((5, 3))
    make, loss = lambda rngs: Linear(3, 1, rngs=rngs), lambda module, x: jnp.mean((module(x) - 3.0) ** 2)
    given = make, loss, lambda key: jax.random.normal(key, (32, 3))
    at_best = lambda validate, *rates: fit_best(*given, validate, jax.random.key(0), steps=30, rates=rates)
    like_training = at_best(lambda module: loss(module, points), float("nan"), 0.0, 0.1)
    unlike_training = at_best(lambda module: -loss(module, points), float("nan"), 0.0, 0.1)
    assert like_training.rate == 0.1 and unlike_training.rate == 0.0
    assert at_best(lambda module: 1.0, 0.1, 0.0).rate == 0.1
    assert at_best(lambda module: loss(module, points), float("nan")) is None
    structure, parameters, losses = fit(*given, jax.random.key(0), steps=30, learning_rate=0.1)
    np.testing.assert_array_equal(like_training.losses, losses)
    assert like_training.parameters == 4
    np.testing.assert_array_equal(like_training.module(points), structure.merge(parameters)(points))
