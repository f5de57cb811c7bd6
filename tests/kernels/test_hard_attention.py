"""Hard attention: Xu et al. 2015, section 4.1; its argmax and semi-sampling."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import hard_attention
from attention_research.kernels.selection import semi_sampled_attention
from tests.kernels.conftest import softmax64

B, T, S, DV = 2, 5, 7, 3
attend = jax.jit(hard_attention)
semi_attend = jax.jit(semi_sampled_attention)
MASK = jnp.asarray(np.random.default_rng(4).random((B, T, S)) < 0.6).at[0, 2].set(False).at[1, 1].set(True)


@pytest.mark.parametrize("sampled", [True, False], ids=["sampled", "argmax"])
def test_log_probabilities_and_contexts(sampled, normal):
    """One-hot weights at a visible key, the key's value, and log softmax(scores) at the key. An empty row gives 0."""
    scores, values = 3 * normal(B, T, S), normal(B, S, DV)
    probabilities = softmax64(np.asarray(scores, np.float64), np.asarray(MASK))
    for seed in range(5):
        key = jax.random.key(seed) if sampled else None
        context, weights, log_prob = map(np.asarray, attend(key, scores, values, MASK))
        for b, t in np.ndindex(B, T):
            chosen = np.flatnonzero(weights[b, t])
            if not MASK[b, t].any():
                assert chosen.size == 0 and not np.any(context[b, t]) and log_prob[b, t] == 0
                continue
            (s,) = chosen
            assert weights[b, t, s] == 1 and MASK[b, t, s]
            np.testing.assert_array_equal(context[b, t], values[b, s])
            np.testing.assert_allclose(log_prob[b, t], np.log(probabilities[b, t, s]), rtol=1e-5, atol=1e-6)
            if not sampled:
                assert s == probabilities[b, t].argmax()


def test_samples_are_as_frequent_as_the_softmax_says(normal):
    scores, values = normal(1, 3, S), normal(1, S, DV)
    mask = MASK[1:, 1:4]
    keys = jax.random.split(jax.random.key(0), 20_000)
    weights = jax.jit(jax.vmap(lambda key: hard_attention(key, scores, values, mask)[1]))(keys)
    expected = softmax64(np.asarray(scores, np.float64), np.asarray(mask))
    deviation = np.sqrt(expected * (1 - expected) / len(keys))
    assert np.all(np.abs(weights.mean(axis=0) - expected) <= 4 * deviation)
    chosen = np.asarray(weights)[:, 0].argmax(-1)  # the queries of one call are independent
    first, second = chosen[:, 0] == chosen[0, 0], chosen[:, 1] == chosen[0, 1]
    assert 0.01 < second.mean() < 0.99 and abs(np.corrcoef(first, second)[0, 1]) < 0.03


def test_the_argmax_has_no_gradient_and_a_sample_one_through_its_probability_alone(normal):
    """d log softmax(x)_s / dx is one-hot_s - softmax(x)."""
    scores, values = normal(B, T, S), normal(B, S, DV)
    key = jax.random.key(3)

    def gradient(part, key):
        outputs, pull = jax.vjp(lambda x: attend(key, x, values, MASK), scores)
        return pull(tuple(jnp.full_like(x, n == part) for n, x in enumerate(outputs)))[0]

    assert not any(np.any(gradient(part, None)) for part in range(3))
    assert not np.any(gradient(0, key)) and not np.any(gradient(1, key))
    weights = attend(key, scores, values, MASK)[1]
    probabilities = softmax64(np.asarray(scores, np.float64), np.asarray(MASK))
    np.testing.assert_allclose(gradient(2, key), weights - probabilities, atol=1e-6)
    of_values = jax.grad(lambda v: attend(key, scores, v, MASK)[0].sum())(values)
    np.testing.assert_array_equal(of_values, np.repeat(np.asarray(weights).sum(1)[..., None], DV, -1))


def test_unchosen_values_are_not_read(normal):
    scores, values = normal(B, T, S), normal(B, S, DV)
    weights = attend(None, scores, values)[1]
    spoiled = jnp.where((np.asarray(weights).sum(1) > 0)[..., None], values, jnp.nan)
    np.testing.assert_array_equal(attend(None, scores, spoiled)[0], attend(None, scores, values)[0])


def test_ties_and_extreme_scores(normal):
    values = normal(1, 3, DV)
    _, weights, log_prob = attend(None, jnp.array([[[2.0, 2.0, 1.0], [1e30, -1e30, 0.0]]]), values)
    np.testing.assert_array_equal(weights[0], [[1, 0, 0], [1, 0, 0]])
    np.testing.assert_allclose(log_prob[0], [-np.log(2 + np.exp(-1)), 0], rtol=1e-6)


def test_semi_sampling_is_soft_or_hard(normal):
    scores, values, key = normal(B, T, S), normal(B, S, DV), jax.random.key(1)
    for got, want in zip(
        semi_attend(key, jnp.bool_(True), scores, values, MASK), attend(key, scores, values, MASK), strict=True
    ):
        np.testing.assert_array_equal(got, want)
    context, weights, log_prob = semi_attend(key, jnp.bool_(False), scores, values, MASK)
    soft = softmax64(np.asarray(scores, np.float64), np.asarray(MASK))
    np.testing.assert_allclose(weights, soft, atol=1e-6)
    np.testing.assert_allclose(context, soft @ np.asarray(values, np.float64), atol=2e-6)
    assert not np.any(log_prob)

    def by_context(sampled):
        return jax.grad(lambda x: semi_attend(key, jnp.bool_(sampled), x, values, MASK)[0].sum())(scores)

    assert np.any(by_context(False)) and not np.any(by_context(True))
