"""Copying: the distribution over source tokens, the pointer-generator mixture and coverage, against NumPy loops."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.kernels import copy_distribution
from attention_research.kernels.copying import (
    copy_mixture_log_probability,
    coverage_attention,
    coverage_loss,
    coverage_vectors,
    generation_probability,
    pointer_generator,
)
from tests.kernels.conftest import softmax64

B, T, S, V, EXTRA, DQ, DK, A = 2, 5, 13, 7, 3, 11, 17, 19
MASK = jnp.asarray(np.arange(S) < np.array([[13], [8]]))


def distributions(random, *shape):
    return softmax64(random.standard_normal(shape), np.ones(shape, bool))


def test_copy_distribution_adds_up_the_positions_of_each_token():
    random = np.random.default_rng(0)
    weights, ids = distributions(random, B, T, S), random.integers(-2, V + 2, (B, S))
    for mask in (np.ones((B, S), bool), np.asarray(MASK)):
        expected = np.zeros((B, T, V))
        for b, t, s in np.ndindex(B, T, S):
            if mask[b, s] and 0 <= ids[b, s] < V:
                expected[b, t, ids[b, s]] += weights[b, t, s]
        got = copy_distribution(jnp.float32(weights), jnp.int32(ids), V, mask=jnp.asarray(mask))
        np.testing.assert_allclose(got, expected, atol=1e-6)
    assert (ids < 0).any() and (ids >= V).any()


def test_ids_of_known_words_keep_all_the_mass():
    random = np.random.default_rng(1)
    weights = distributions(random, B, T, S)
    got = copy_distribution(jnp.float32(weights), jnp.int32(random.integers(0, V, (B, S))), V)
    np.testing.assert_allclose(np.sum(got, -1), 1, atol=1e-6)


def pointer64(vocabulary, weights, ids, generate, mask):
    """P(w) for each word of the extended vocabulary, by a sum over the positions that hold it."""
    expected = np.zeros((B, T, V + EXTRA))
    for b, t, w in np.ndindex(B, T, V + EXTRA):
        copied = sum(weights[b, t, s] for s in range(S) if mask[b, s] and ids[b, s] == w)
        known = vocabulary[b, t, w] if w < V else 0.0
        expected[b, t, w] = generate[b, t] * known + (1 - generate[b, t]) * copied
    return expected


def test_pointer_generator_is_the_equation():
    random = np.random.default_rng(2)
    mask = np.asarray(MASK)
    vocabulary, generate = distributions(random, B, T, V), random.random((B, T))
    weights = softmax64(random.standard_normal((B, T, S)), np.broadcast_to(mask[:, None], (B, T, S)))
    ids = random.integers(0, V + EXTRA, (B, S))
    expected = pointer64(vocabulary, weights, ids, generate, mask)
    floats = [jnp.float32(x) for x in (vocabulary, weights, generate)]
    got = pointer_generator(floats[0], floats[1], jnp.int32(ids), floats[2], extra=EXTRA, mask=MASK)
    np.testing.assert_allclose(got, expected, atol=1e-6)
    np.testing.assert_allclose(np.sum(got, -1), 1, atol=1e-6)
    # The mixture's log-probability of one target for each step is the same, without the [B T V] array.
    for target in (2, V + 1):
        log_vocabulary = np.log(vocabulary[..., target]) if target < V else np.full((B, T), -np.inf)
        copyable = np.broadcast_to(((ids == target) & mask)[:, None], (B, T, S))
        assert copyable.any()
        likely = copy_mixture_log_probability(
            1 - floats[2], floats[1], jnp.asarray(copyable), jnp.float32(log_vocabulary)
        )
        np.testing.assert_allclose(np.exp(likely), expected[..., target], atol=1e-6)


def test_generation_probability_is_the_equation():
    random = np.random.default_rng(3)
    arrays = [random.standard_normal(shape) for shape in ((B, T, 3), (B, T, DQ), (B, T, DK), (3,), (DQ,), (DK,), ())]
    context, state, inputs, wh, ws, wx, bias = arrays
    expected = np.zeros((B, T))
    for b, t in np.ndindex(B, T):
        expected[b, t] = 1 / (1 + np.exp(-(wh @ context[b, t] + ws @ state[b, t] + wx @ inputs[b, t] + bias)))
    got = generation_probability(*(jnp.asarray(x, jnp.float32) for x in arrays))
    np.testing.assert_allclose(got, expected, atol=1e-6)


def coverage64(query, keys, query_weight, key_weight, coverage_weight, v, bias, mask, coverage=None):
    """(weights, coverage, loss) step by step and key by key."""
    weights, before, loss = np.zeros((B, T, S)), np.zeros((B, T, S)), np.zeros((B, T))
    for b in range(B):
        covered = np.zeros(S) if coverage is None else coverage[b].copy()
        for t in range(T):
            scores = np.zeros(S)
            for s in range(S):
                inner = key_weight @ keys[b, s] + query_weight @ query[b, t] + coverage_weight * covered[s] + bias
                scores[s] = v @ np.tanh(inner)
            weights[b, t] = softmax64(scores, mask[b])
            before[b, t] = covered
            loss[b, t] = np.minimum(weights[b, t], covered).sum()
            covered = covered + weights[b, t]
    return weights, before, loss


def coverage_arrays(random):
    shapes = ((B, T, DQ), (B, S, DK), (A, DQ), (A, DK), (A,), (A,), (A,))
    return [random.standard_normal(shape) for shape in shapes]


def test_a_target_that_cannot_be_written_has_no_gradient():
    """The second target is neither in the source nor in the vocabulary, and the loss leaves it out."""
    copyable = jnp.array([[[True, False], [False, False]]])
    given = {
        "copy_probability": jnp.array([[0.3, 0.4]]),
        "copy_weights": jnp.array([[[0.6, 0.4], [0.5, 0.5]]]),
        "vocabulary_log_probability": jnp.array([[-1.0, -jnp.inf]]),
    }
    log_likelihood = lambda given: copy_mixture_log_probability(**given, copyable=copyable)
    assert log_likelihood(given)[0, 1] == -jnp.inf
    gradients = jax.grad(lambda given: jnp.sum(log_likelihood(given), where=jnp.array([[True, False]])))(given)
    likelihood = 0.3 * 0.6 + 0.7 * np.exp(-1)  # log of this
    wanted = {
        "copy_probability": [[(0.6 - np.exp(-1)) / likelihood, 0.0]],
        "copy_weights": [[[0.3 / likelihood, 0.0], [0.0, 0.0]]],
        "vocabulary_log_probability": [[0.7 * np.exp(-1) / likelihood, 0.0]],
    }
    for name, found in gradients.items():
        np.testing.assert_allclose(found, wanted[name], rtol=1e-5, err_msg=name)


def test_without_a_step_there_is_no_coverage():
    assert coverage_vectors(jnp.zeros((1, 0, 3))).shape == (1, 0, 3)


def test_coverage_attention_is_the_equation():
    random = np.random.default_rng(4)
    arrays, first = coverage_arrays(random), random.random((B, S))
    floats = [jnp.asarray(x, jnp.float32) for x in arrays]
    for coverage in (None, first):
        weights, before, loss = coverage64(*arrays, np.asarray(MASK), coverage)
        given = None if coverage is None else jnp.asarray(coverage, jnp.float32)
        got, covered = coverage_attention(*floats, mask=MASK, coverage=given)
        np.testing.assert_allclose(got, weights, atol=1e-5)
        np.testing.assert_allclose(covered, before, atol=1e-5)
        np.testing.assert_allclose(coverage_loss(got, covered), loss, atol=1e-5)


def test_the_coverage_of_a_scan_is_the_sum_of_the_earlier_weights():
    arrays = [jnp.asarray(x, jnp.float32) for x in coverage_arrays(np.random.default_rng(5))]
    weights, covered = coverage_attention(*arrays, mask=MASK)
    np.testing.assert_allclose(coverage_vectors(weights), covered, atol=1e-6)
    assert not covered[:, 0].any()
    loss = coverage_loss(weights, covered)
    assert not loss[:, 0].any() and (loss[:, 1:] > 0).all() and (loss <= 1).all()


def test_a_negative_coverage_weight_prevents_repeated_attention():
    """The query is the same at every step.

    Without coverage it selects the same key each time, with it each key once.
    """
    query = jnp.ones((1, 3, 1))
    keys = jnp.array([[[0.3], [0.2], [0.1]]])
    one = jnp.ones((1, 1))
    attended = lambda weight: np.argmax(
        coverage_attention(query, keys, one, one, jnp.full((1,), weight), jnp.full((1,), 20.0))[0][0], -1
    )
    assert attended(0.0).tolist() == [0, 0, 0]
    assert sorted(attended(-3.0)) == [0, 1, 2]


def test_the_gradient_of_the_coverage_loss_reaches_earlier_steps():
    arrays = [jnp.asarray(x, jnp.float32) for x in coverage_arrays(np.random.default_rng(6))]

    def last_loss(query):
        return coverage_loss(*coverage_attention(query, *arrays[1:], mask=MASK))[:, -1].sum()

    gradient = jax.grad(last_loss)(arrays[0])
    assert all(np.abs(gradient[:, t]).max() > 0 for t in range(T))
