"""REINFORCE for hard attention against the exact gradient of the expectation, by enumeration of all choices."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from attention_research.kernels import hard_attention
from attention_research.kernels.selection import (
    attention_entropy,
    cost_to_go,
    moving_average_baseline,
    reinforce_surrogate,
    semi_sampled_attention,
)
from tests.kernels.conftest import softmax64

T, S, DV = 2, 3, 2  # two choices of three values; the first affects the second one's scores
VALUES = np.array([[0.4, -1.3], [1.1, 0.2], [-0.7, 0.9]])
SCORES = np.array([[0.3, -0.4, 0.8], [-0.2, 0.5, 0.1]])
FEED = np.array([[0.9, -0.5, 0.3], [-0.6, 0.7, 0.2]])  # [DV S]
SHIFT = 3.0  # costs are far from 0, like negative log-likelihoods
SAMPLES = 20_000


def exact_gradient() -> np.ndarray:
    """d/d scores of sum over choices p(choices) cost(choices), in float64, by central differences of the sum."""

    def expectation(scores):
        total = 0.0
        for first, second in itertools.product(range(S), repeat=T):
            p = np.exp(scores[0]) / np.exp(scores[0]).sum()
            later = scores[1] + VALUES[first] @ FEED
            q = np.exp(later) / np.exp(later).sum()
            total += p[first] * q[second] * sum(costs64(VALUES[first], VALUES[second]))
        return total

    gradient = np.zeros_like(SCORES)
    for index in np.ndindex(T, S):
        step = np.zeros_like(SCORES)
        step[index] = 1e-5
        gradient[index] = (expectation(SCORES + step) - expectation(SCORES - step)) / 2e-5
    return gradient


def costs64(first, second):
    return SHIFT + first[0] ** 2, SHIFT + (second[1] - first[0]) ** 2


def run(attend, scores):
    """The costs [1 T] and log-probabilities [1 T] of two choices made one after the other."""
    values, feed = jnp.asarray(VALUES, jnp.float32)[None], jnp.asarray(FEED, jnp.float32)
    one, _, log_one = attend(0, scores[None, :1], values)
    two, _, log_two = attend(1, scores[None, 1:] + jnp.einsum("BTD,DS->BTS", one, feed), values)
    one, two = one[0, 0], two[0, 0]
    cost = jnp.stack([SHIFT + one[0] ** 2, SHIFT + (two[1] - one[0]) ** 2])[None]
    return cost, jnp.concatenate([log_one, log_two], axis=1)


@functools.cache
def estimator(kind: str):
    """Gradients of the surrogate with respect to the scores, [samples T S], as a function of keys and baseline."""

    def loss(scores, key, baseline):
        keys = jax.random.split(key, T)
        cost, log_prob = run(lambda t, x, values: hard_attention(keys[t], x, values), scores)
        signal = {"whole": lambda: cost.sum(axis=1, keepdims=True), "to_go": lambda: cost_to_go(cost)}[kind]()
        return cost.sum() + reinforce_surrogate(log_prob, signal, baseline).sum()

    return jax.jit(jax.vmap(jax.grad(loss), (None, 0, None)))


def estimates(kind: str, baseline: float) -> np.ndarray:
    keys = jax.random.split(jax.random.key(0), SAMPLES)
    return np.asarray(estimator(kind)(jnp.asarray(SCORES, jnp.float32), keys, jnp.float32(baseline)))


@pytest.mark.parametrize("kind", ["whole", "to_go"])
@pytest.mark.parametrize("baseline", [0.0, 6.5], ids=["none", "baseline"])
def test_the_estimate_is_unbiased(kind, baseline):
    got, want = estimates(kind, baseline), exact_gradient()
    error = got.std(axis=0) / np.sqrt(SAMPLES)
    assert np.abs(want).max() > 10 * error.max()  # large enough to tell this gradient from 0 and its negative
    assert np.all(np.abs(got.mean(axis=0) - want) <= 4 * error)


def test_the_moving_average_lowers_the_variance():
    cost = jnp.full((5, 1), 2 * SHIFT + 1)
    baseline, update = jnp.float32(0), jax.jit(moving_average_baseline)
    for _ in range(50):
        baseline = update(baseline, cost)
    none, moved = estimates("whole", 0.0), estimates("whole", float(baseline))
    assert np.all(moved.var(axis=0) < 0.2 * none.var(axis=0))
    assert estimates("to_go", 0.0).var(axis=0).sum() < none.var(axis=0).sum()


@pytest.mark.slow
def test_semi_sampling_lowers_the_variance_further():
    """Half of the minibatches give the soft gradient, which has no variance. The mean is between the two gradients."""

    def loss(scores, key):
        keys = jax.random.split(key, T + 1)
        sampled = jax.random.bernoulli(keys[T])
        cost, log_prob = run(lambda t, x, values: semi_sampled_attention(keys[t], sampled, x, values), scores)
        return cost.sum() + reinforce_surrogate(log_prob, cost.sum(axis=1, keepdims=True), jnp.float32(7)).sum()

    keys = jax.random.split(jax.random.key(0), SAMPLES)
    scores = jnp.asarray(SCORES, jnp.float32)
    semi = np.asarray(jax.jit(jax.vmap(jax.grad(loss), (None, 0)))(scores, keys))
    probabilities = lambda x, values: jax.nn.softmax(x)[..., None] * values[:, None]
    soft = lambda t, x, values: (probabilities(x, values).sum(2), None, jnp.zeros((1, 1)))
    of_soft = np.asarray(jax.grad(lambda x: run(soft, x)[0].sum())(scores))
    error = semi.std(axis=0) / np.sqrt(SAMPLES)
    assert np.all(np.abs(semi.mean(axis=0) - (exact_gradient() + of_soft) / 2) <= 4 * error)
    assert semi.var(axis=0).sum() < estimates("whole", 7.0).var(axis=0).sum()


def test_the_moving_average_is_the_papers(normal):
    cost, mask = normal(3, 5), jnp.asarray(np.arange(5) < np.array([[5], [2], [0]]))
    real = np.asarray(cost, np.float64)[np.asarray(mask)]
    update = jax.jit(moving_average_baseline, static_argnames="decay")
    np.testing.assert_allclose(update(jnp.float32(2), cost, mask), 0.9 * 2 + 0.1 * real.mean(), rtol=1e-5)
    np.testing.assert_allclose(update(jnp.float32(2), cost, decay=0.5), 1 + 0.5 * np.mean(cost), rtol=1e-5)
    whole = np.asarray(cost, np.float64)[:2, 0].mean()  # the third sequence has no real position
    np.testing.assert_allclose(update(jnp.float32(2), cost[:, :1], mask), 0.9 * 2 + 0.1 * whole, rtol=1e-5)
    assert update(jnp.float32(2), cost, jnp.zeros_like(mask)) == 2
    assert not np.any(jax.grad(lambda c: moving_average_baseline(c.sum(), c, mask))(cost))


def test_the_gradient_is_the_advantage_at_real_positions(normal):
    log_prob, cost = normal(3, 5), normal(3, 1)
    mask = jnp.asarray(np.arange(5) < np.array([[5], [2], [0]]))
    surrogate = lambda x: reinforce_surrogate(x, cost, jnp.float32(0.3), mask).sum()
    want = np.where(mask, np.asarray(cost, np.float64) - 0.3, 0)
    np.testing.assert_allclose(jax.grad(surrogate)(log_prob), want, rtol=1e-5, atol=1e-6)


def test_entropy_is_that_of_scipy(normal):
    scores = 5 * normal(2, 5, 7)
    mask = np.random.default_rng(1).random((2, 5, 7)) < 0.6
    mask[0, 1] = False
    mask[1, 0, 1:] = False
    mask[1, 0, 0] = True  # a single key: the entropy is 0
    weights = softmax64(np.asarray(scores, np.float64), mask)
    want = np.where(mask.any(-1), stats.entropy(np.where(mask.any(-1, keepdims=True), weights, 1), axis=-1), 0)
    np.testing.assert_allclose(jax.jit(attention_entropy)(scores, jnp.asarray(mask)), want, atol=3e-6)
    uniform = attention_entropy(jnp.zeros((1, 1, 7)))
    np.testing.assert_allclose(uniform, np.log(7), rtol=1e-6)


@pytest.mark.slow
def test_the_entropys_gradient_survives_weights_that_underflow():
    scores = jnp.array([[[0.0, -200.0, 1.0]]])
    value, gradient = jax.value_and_grad(lambda x: attention_entropy(x).sum())(scores)
    p = 1 / (1 + np.e)
    np.testing.assert_allclose(value, -(p * np.log(p) + (1 - p) * np.log(1 - p)), rtol=1e-6)
    assert np.isfinite(gradient).all() and np.any(gradient) and gradient[0, 0, 1] == 0
