"""Local attention: Luong et al. 2015, section 3.2, equations 9 and 10, position by position."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from attention_research.kernels import local_weights
from attention_research.kernels.selection import local_window, predicted_centers
from tests.tiers import fast_are

B, T, S, D = 2, 7, 13, 5
CENTERS = jnp.array([[0.0, 3.0, 3.5, 12.0, 12.9, -0.3, 7.25], [6.0, 13.0, 40.0, -9.0, 5.999, 1.0, 2.0]])
MASK = jnp.asarray(np.random.default_rng(4).random((B, T, S)) < 0.8)
KINDS = {"local_m": False, "local_p": True}


def local64(scores, centers, half_width, gaussian, mask):
    """Equation 10 in scalar arithmetic: a window, its softmax, its Gaussian."""
    weights, (scores, centers, mask) = np.zeros((B, T, S)), map(np.asarray, (scores, centers, mask))
    for b, t in np.ndindex(B, T):
        p = float(centers[b, t])
        window = [s for s in range(S) if p - half_width <= s <= p + half_width and mask[b, t, s]]
        total = sum(math.exp(float(scores[b, t, s])) for s in window)
        for s in window:
            weights[b, t, s] = math.exp(float(scores[b, t, s])) / total
            if gaussian:
                sigma = half_width / 2
                weights[b, t, s] *= math.exp(-((s - p) ** 2) / (2 * sigma**2))
    return weights


@pytest.mark.parametrize("gaussian", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("half_width", fast_are(["2.5", "40"], [1, 3, 2.5, 40]))
def test_weights_are_the_equation(gaussian, half_width, normal):
    scores = normal(B, T, S)
    for mask in (MASK, MASK[:, :1], None):
        seen = np.broadcast_to(True if mask is None else mask, (B, T, S))
        weights = jax.jit(lambda *x: local_weights(*x[:2], half_width=half_width, gaussian=gaussian, mask=x[2]))
        got = weights(scores, CENTERS, mask)
        want = local64(scores, CENTERS, half_width, gaussian, seen)
        np.testing.assert_allclose(got, want, atol=2e-6)
    assert np.any(want.sum(-1) == 0) == (half_width < 20)  # a centre far away has an empty window


def test_local_m_looks_around_its_own_position(normal):
    scores = jnp.zeros((1, 3, 5))
    centers = jnp.arange(3, dtype=jnp.float32)[None]
    got = local_weights(scores, centers, half_width=1, gaussian=False)[0]
    np.testing.assert_allclose(
        got, [[1 / 2, 1 / 2, 0, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0, 0], [0, 1 / 3, 1 / 3, 1 / 3, 0]], rtol=1e-6
    )
    np.testing.assert_array_equal(local_weights(scores, centers, half_width=0, gaussian=False)[0], np.eye(3, 5))


def test_centers_learn_through_the_gaussian_alone(normal):
    scores, weight = normal(B, T, S), normal(B, T, S)

    def gradient(gaussian):
        call = jax.jit(lambda c: local_weights(scores, c, half_width=3, gaussian=gaussian, mask=MASK))
        return jax.vjp(call, CENTERS)[1](weight)[0]

    assert not np.any(gradient(False))
    weights = local64(scores, CENTERS, 3, True, MASK)  # d exp(-(s - p)^2 / 2 sigma^2) / dp = (s - p) / sigma^2 times it
    want = (weights * np.asarray(weight) * (np.arange(S) - np.asarray(CENTERS)[..., None]) / 1.5**2).sum(-1)
    np.testing.assert_allclose(gradient(True), want, atol=1e-5)


def test_centers_are_the_equation(normal):
    query, weight, v = normal(B, T, D), normal(11, D), normal(11)
    lengths = jnp.array([13, 4])
    want = np.zeros((B, T))
    for b, t in np.ndindex(B, T):
        hidden = np.tanh(np.asarray(weight, np.float64) @ np.asarray(query[b, t], np.float64))
        want[b, t] = int(lengths[b]) / (1 + math.exp(-float(np.asarray(v, np.float64) @ hidden)))
    np.testing.assert_allclose(jax.jit(predicted_centers)(query, weight, v, lengths), want, rtol=1e-5)


@pytest.mark.parametrize("half_width", fast_are(["2"], [0, 2, 20]))
def test_windows_give_the_weights_and_contexts_of_the_whole_sequence(half_width, normal):
    """Scores of the windows alone give the same weights at the same positions, the same contexts and gradients."""
    query, keys, values = normal(B, T, D), normal(B, S, D), normal(B, S, 3)
    real = jnp.asarray(np.arange(S) < np.array([[13], [6]]))
    gaussian = half_width > 0

    def whole(query, keys, values):
        scores = jnp.einsum("BTD,BSD->BTS", query, keys)
        weights = local_weights(scores, CENTERS, half_width=half_width, gaussian=gaussian, mask=real[:, None])
        return weights, jnp.einsum("BTS,BSD->BTD", weights, values)

    def windowed(query, keys, values):
        of_keys, positions, visible = local_window(keys, CENTERS, half_width=half_width, mask=real)
        assert of_keys.shape == (B, T, 2 * half_width + 1, D)
        of_values, _, _ = local_window(values, CENTERS, half_width=half_width, mask=real)
        scores = jnp.einsum("BTD,BTWD->BTW", query, of_keys)
        options = dict(half_width=half_width, gaussian=gaussian, mask=visible, positions=positions)
        weights = local_weights(scores, CENTERS, **options)
        placed = jnp.zeros((B, T, S)).at[
            jnp.arange(B)[:, None, None], jnp.arange(T)[:, None], jnp.clip(positions, 0, S - 1)
        ].add(weights)  # fmt: skip
        return placed, jnp.einsum("BTW,BTWD->BTD", weights, of_values)

    want, pull_want = jax.vjp(jax.jit(whole), query, keys, values)
    got, pull_got = jax.vjp(jax.jit(windowed), query, keys, values)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)
    cotangents = (normal(B, T, S), normal(B, T, 3))
    for one, other in zip(pull_got(cotangents), pull_want(cotangents), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("half_width", fast_are(["2"], [0, 2]))
def test_a_window_has_the_integer_positions_around_its_centre(half_width, normal):
    keys, real = normal(B, S, D), np.arange(S) < np.array([[13], [6]])
    window = local_window(keys, CENTERS, half_width=half_width, mask=jnp.asarray(real))
    keys, entries, positions, visible = map(np.asarray, (keys, *window))
    for b, t in np.ndindex(B, T):
        reach = [s for s in range(S) if abs(s - float(CENTERS[b, t])) <= half_width and real[b, s]]
        assert positions[b, t][visible[b, t]].tolist() == reach
        np.testing.assert_array_equal(entries[b, t][visible[b, t]], keys[b, np.array(reach, int)])
        assert not np.any(entries[b, t][~visible[b, t]])


def test_gradients_are_finite_differences_in_float64(normal):
    with jax.enable_x64(True):
        scores, centers = normal(B, T, S).astype(jnp.float64), CENTERS.astype(jnp.float64) + 0.1
        call = jax.jit(lambda x, c: local_weights(x, c, half_width=3, gaussian=True, mask=MASK))
        check_grads(call, (scores, centers), order=1, modes=["rev"], atol=1e-6, rtol=1e-6)


def test_invalid_widths_are_refused(normal):
    scores = normal(B, T, S)
    with pytest.raises(ValueError, match="half_width: expected a number above 0"):
        local_weights(scores, CENTERS, half_width=0, gaussian=True)
    with pytest.raises(ValueError, match="half_width: expected a number at least 0, got -1"):
        local_weights(scores, CENTERS, half_width=-1, gaussian=False)
