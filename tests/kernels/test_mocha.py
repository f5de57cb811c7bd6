"""Monotonic chunkwise attention: Chiu & Raffel 2018, section 2.3, against the explicit sum."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from attention_research.kernels import mocha_weights

B, S = 3, 13
weigh = jax.jit(mocha_weights, static_argnames="chunk_size")


def alignments(seed=0):
    return jnp.asarray(0.9 * np.random.default_rng(seed).dirichlet(np.ones(S), B), jnp.float32)


def explicit64(alignment, scores, w, mask=None):
    """The sum over all stopping positions k of alpha_k times the softmax of the w real scores that end at k."""
    alignment, scores = np.asarray(alignment, np.float64), np.asarray(scores, np.float64)
    beta = np.zeros((B, S))
    for b, k in np.ndindex(B, S):
        chunk = [j for j in range(max(0, k - w + 1), k + 1) if mask is None or mask[b, j]]
        if mask is None or mask[b, k]:
            exponentials = np.exp(scores[b, chunk] - scores[b, chunk].max())
            beta[b, chunk] += alignment[b, k] * exponentials / exponentials.sum()
    return beta


@pytest.mark.parametrize("w", [1, 2, 5, 13, 40])
def test_weights_are_the_explicit_sum(w, normal):
    alignment, scores = alignments(), 2 * normal(B, S)
    mask = jnp.asarray(np.random.default_rng(2).random((B, S)) < 0.7)
    got = weigh(alignment, scores, chunk_size=w)
    np.testing.assert_allclose(got, explicit64(alignment, scores, w), atol=1e-6)
    np.testing.assert_allclose(got.sum(axis=1), alignment.sum(axis=1), rtol=1e-5)
    masked = weigh(alignment, scores, chunk_size=w, mask=mask)
    np.testing.assert_allclose(masked, explicit64(alignment, scores, w, mask), atol=1e-6)


def test_chunks_of_one_are_hard_monotonic_attention(normal):
    hard = jnp.eye(S)[jnp.array([0, 5, 12])] * jnp.array([[1.0], [1.0], [0.0]])
    np.testing.assert_array_equal(weigh(hard, 100 * normal(B, S), chunk_size=1), hard)
    soft = alignments()
    np.testing.assert_array_equal(weigh(soft, 100 * normal(B, S), chunk_size=1), soft)


def test_a_hard_alignment_gives_the_softmax_of_one_chunk(normal):
    scores = normal(B, S)
    alignment = jax.nn.one_hot(jnp.array([0, 2, 9]), S)
    got = weigh(alignment, scores, chunk_size=4)
    for b, chunk in enumerate((slice(0, 1), slice(0, 3), slice(6, 10))):
        want = np.zeros(S)
        want[chunk] = np.exp(scores[b, chunk]) / np.exp(scores[b, chunk]).sum()
        np.testing.assert_allclose(got[b], want, atol=1e-6)


def test_large_energies_neither_overflow_nor_vanish(normal):
    """Scores of 1e4 beside -1e4. A shift by the row's maximum would give 0 / 0 in the low chunks."""
    alignment = alignments()
    scores = normal(B, S) + jnp.where(jnp.arange(S) < 6, 1e4, -1e4)
    got, pull = jax.vjp(lambda *x: weigh(*x, chunk_size=3), alignment, scores)
    np.testing.assert_allclose(got, explicit64(alignment, scores, 3), atol=1e-6)
    assert all(np.isfinite(gradient).all() and np.any(gradient) for gradient in pull(normal(B, S)))


def test_gradients_are_finite_differences_in_float64(normal):
    with jax.enable_x64(True):
        inputs = alignments().astype(jnp.float64), normal(B, S).astype(jnp.float64)
        call = lambda *x: weigh(*x, chunk_size=4)
        check_grads(call, inputs, order=1, modes=["rev"], atol=1e-6, rtol=1e-6)


def test_an_empty_chunk_is_refused(normal):
    with pytest.raises(ValueError, match="chunk_size: expected at least 1, got 0"):
        mocha_weights(alignments(), normal(B, S), chunk_size=0)
