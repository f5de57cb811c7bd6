"""Synthesizers and their mixtures against the paper's equations and the released code's, in float64 loops."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import (
    dense_synthesizer_attention,
    dense_synthesizer_scores,
    dot_product_attention,
    factorized_dense_scores,
    factorized_dense_synthesizer_attention,
    factorized_random_scores,
    factorized_random_synthesizer_attention,
    synthesizer_attention,
)
from attention_research.kernels.no_dot_product import (
    mixture_scores,
    mixture_synthesizer_attention,
    released_dense_synthesizer_attention,
    released_factorized_random_scores,
)
from tests.kernels.conftest import attention64, softmax64
from tests.tiers import fast_are

B, T, S, N, H, HV, D, F, R, P, Q = 2, 11, 13, 3, 5, 7, 17, 19, 2, 3, 5
MASK = jnp.asarray(np.random.default_rng(5).random((B, 1, T, S)) < 0.6).at[:, :, 4].set(False)


def mixed64(scores, value, mask, is_causal):
    """softmax(scores) value, position by position."""
    scores, value = (np.asarray(x, np.float64) for x in (scores, value))
    visible = np.broadcast_to(np.asarray(mask), (B, N, T, S)).copy()
    for i, j in np.ndindex(T, S):
        visible[:, :, i, j] &= j <= i or not is_causal
    weights = softmax64(np.broadcast_to(scores, (B, N, T, S)).copy(), visible)
    context = np.zeros((B, T, N, HV))
    for b, i, n, j in np.ndindex(B, T, N, S):
        context[b, i, n] += weights[b, n, i, j] * value[b, j, n]
    return context


def dense64(x, hidden_weight, hidden_bias, output_weight, output_bias):
    x, w1, b1, w2, b2 = (np.asarray(a, np.float64) for a in (x, hidden_weight, hidden_bias, output_weight, output_bias))
    scores = np.zeros((B, N, T, w2.shape[-1]))
    for b, n, i in np.ndindex(B, N, T):
        scores[b, n, i] = np.maximum(x[b, i] @ w1[n] + b1[n], 0) @ w2[n] + b2[n]
    return scores


def released_dense64(query, weight):
    query, weight = np.asarray(query, np.float64), np.asarray(weight, np.float64)
    scores = np.zeros((B, N, T, S))
    for b, n, i, j in np.ndindex(B, N, T, S):
        scores[b, n, i, j] = sum(max(query[b, i, n, h], 0) * weight[h, j] for h in range(H))
    return scores


def factorized_random64(left, right):
    left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
    scores = np.zeros((1, N, T, S))
    for n, i, j in np.ndindex(N, T, S):
        scores[0, n, i, j] = sum(left[n, i, r] * right[n, j, r] for r in range(R))
    return scores


def factorized_dense64(left, right):
    left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
    scores = np.zeros((B, N, T, S))
    for b, n, i, j in np.ndindex(B, N, T, S):
        scores[b, n, i, j] = left[b, n, i, j // Q] * right[b, n, i, j % Q]
    return scores


DENSE = ((B, T, D), (N, D, F), (N, F), (N, F, S), (N, S))
FORMS = {
    "random": (synthesizer_attention, ((1, N, T, S),), lambda scores: scores),
    "dense": (dense_synthesizer_attention, DENSE, dense64),
    "released_dense": (released_dense_synthesizer_attention, ((B, T, N, H), (H, S)), released_dense64),
    "factorized_random": (factorized_random_synthesizer_attention, ((N, T, R), (N, S, R)), factorized_random64),
    "factorized_dense": (factorized_dense_synthesizer_attention, ((B, N, T, P), (B, N, T, Q)), factorized_dense64),
}


@pytest.mark.parametrize("form", FORMS)
def test_synthesizers_are_the_equations(form, normal):
    kernel, shapes, scores64 = FORMS[form]
    inputs, value = [normal(*shape) for shape in shapes], normal(B, S, N, HV)
    where = 1 if form.endswith("dense") and "factorized" not in form else len(inputs)
    for mask, is_causal in ((None, False), (None, True), (MASK, True)):
        got = kernel(*inputs[:where], value, *inputs[where:], mask, is_causal=is_causal)
        expected = mixed64(scores64(*inputs), value, True if mask is None else mask, is_causal)
        np.testing.assert_allclose(got, expected, atol=1e-5, rtol=1e-4)


def test_the_released_factorized_form_is_the_same_for_every_query_position(normal):
    """As the code runs: two tables over the memory's axis, contracted over the rank, broadcast over the queries."""
    left, right, value = normal(N, S, R), normal(N, S, R), normal(B, S, N, HV)
    r1, r2 = np.asarray(left, np.float64), np.asarray(right, np.float64)
    expected = np.einsum("njr,njr->nj", r1, r2)
    scores = released_factorized_random_scores(left, right, T)
    assert scores.shape == (1, N, T, S)
    for i in range(T):
        np.testing.assert_allclose(scores[0, :, i], expected, atol=1e-5)
    output = factorized_random_synthesizer_attention(left, right, value, released=True)
    np.testing.assert_array_equal(output, np.broadcast_to(output[:, :1], output.shape))
    intended = factorized_random_synthesizer_attention(left, right, value)
    assert np.abs(intended - intended[:, :1]).max() > 0.1
    np.testing.assert_allclose(factorized_random_scores(left, right)[0], np.einsum("nir,njr->nij", r1, r2), atol=1e-5)


def test_factors_predicted_by_the_dense_network_meet_every_pair_once(normal):
    x, *_ = inputs = [normal(*shape) for shape in DENSE]
    left = dense_synthesizer_scores(x, *inputs[1:3], inputs[3][..., :P], inputs[4][..., :P])
    right = dense_synthesizer_scores(x, *inputs[1:3], inputs[3][..., :Q], inputs[4][..., :Q])
    scores = factorized_dense_scores(left, right, P * Q)
    pairs = np.asarray(left)[..., :, None] * np.asarray(right)[..., None, :]
    np.testing.assert_allclose(scores.reshape(pairs.shape), pairs, rtol=1e-6)
    with pytest.raises(ValueError, match="left, right: axes P = 3 and Q = 5: expected a product of at least the 16"):
        factorized_dense_scores(left, right, 16)


ALPHAS = {"plus": None, "released_alpha": (1,), "alpha_a_head": (N,)}


@pytest.mark.parametrize("alphas", fast_are(["alpha_a_head"], ALPHAS))
def test_a_mixture_is_the_equation_in_every_form(alphas, normal):
    query, key, value, table = normal(B, T, N, H), normal(B, S, N, H), normal(B, S, N, HV), normal(1, N, T, S)
    alpha = None if alphas is None else normal(*alphas)
    share = np.ones(N) if alpha is None else 1 / (1 + np.exp(-np.broadcast_to(np.asarray(alpha, np.float64), (N,))))
    for scale in (None, 1.0):
        scores, (queries, keys, added) = np.zeros((B, N, T, S)), map(np.float64, (query, key, table))
        for b, n, i, j in np.ndindex(B, N, T, S):
            dot = queries[b, i, n] @ keys[b, j, n] * (scale or H**-0.5)
            first = 1 if alpha is None else 1 - share[n]
            scores[b, n, i, j] = first * dot + share[n] * added[0, n, i, j]
        for is_causal in (False, True):
            got = mixture_synthesizer_attention(query, key, value, table, alpha, MASK, scale=scale, is_causal=is_causal)
            np.testing.assert_allclose(got, mixed64(scores, value, MASK, is_causal), atol=1e-5, rtol=1e-4)


def test_a_mixture_of_any_parts_has_weights_that_sum_to_one(normal):
    parts, alpha = (normal(1, N, T, S), normal(B, N, T, S), normal(B, N, T, S)), normal(3)
    weights = np.exp(np.asarray(alpha, np.float64))
    weights /= weights.sum()
    expected = sum(weight * np.asarray(part, np.float64) for weight, part in zip(weights, parts, strict=True))
    np.testing.assert_allclose(mixture_scores(alpha, *parts), expected, atol=1e-5)
    with pytest.raises(ValueError, match="alpha: axis M of .* expected the 2 scores"):
        mixture_scores(alpha, *parts[:2])


def test_two_parts_are_the_released_sigmoid(normal):
    """softmax over (0, a) is (1 - sigmoid(a), sigmoid(a)). With alpha far below 0 it is dot-product attention."""
    query, key, value = normal(B, T, N, H), normal(B, S, N, H), normal(B, S, N, HV)
    table, a = normal(1, N, T, S), normal(1)
    dot = jnp.einsum("BTNH,BSNH->BNTS", query, key)
    mixed = synthesizer_attention(mixture_scores(jnp.concatenate([jnp.zeros(1), a]), dot, table), value)
    got = mixture_synthesizer_attention(query, key, value, table, a, scale=1.0)
    np.testing.assert_allclose(got, mixed, atol=1e-5, rtol=1e-4)
    plain, _ = attention64(query, key, value)
    np.testing.assert_allclose(
        mixture_synthesizer_attention(query, key, value, table, jnp.full(1, -40.0)), plain, atol=1e-5
    )


def test_a_table_is_softmaxed_once_for_the_batch(normal):
    jaxpr = jax.make_jaxpr(synthesizer_attention)(normal(1, N, T, S), normal(B, S, N, HV)).jaxpr
    assert not any((B, N, T, S) == result.aval.shape for e in jaxpr.eqns for result in e.outvars)
    zeros = dot_product_attention(jnp.zeros((B, T, N, 1)), jnp.zeros((B, S, N, 1)), value := normal(B, S, N, HV))
    np.testing.assert_allclose(synthesizer_attention(jnp.zeros((1, N, T, S)), value), zeros, atol=1e-6)
