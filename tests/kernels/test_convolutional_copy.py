"""Convolutional copy attention (Allamanis 2016) against NumPy loops over one snippet at a time, and PyTorch."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import copy_distribution
from attention_research.kernels.copying import (
    convolutional_copy_attention,
    convolutional_features,
    copy_mixture_log_probability,
)

B, T, S, D, K1, K, W1, W2 = 2, 3, 13, 7, 11, 5, 4, 3
LENGTHS = (13, 8)
MASK = np.arange(S) < np.array(LENGTHS)[:, None]


def leaky(x, slope):
    return np.where(x > 0, x, slope * x)


def convolve64(x, kernel):
    """Valid convolution [P D] * [W D K], one output at a time, without flipping the kernel."""
    out = np.zeros((len(x) - len(kernel) + 1, kernel.shape[2]))
    for p, k in np.ndindex(out.shape):
        out[p, k] = sum(x[p + w] @ kernel[w, :, k] for w in range(len(kernel)))
    return out


def features64(tokens, first, first_bias, second, second_bias, edge, window, slope):
    around = len(first) + len(second) + window - 3
    left = around // 2 + around % 2
    padded = np.concatenate([np.tile(edge, (left, 1)), tokens, np.tile(edge, (around - left, 1))])
    return convolve64(leaky(convolve64(padded, first) + first_bias, slope), second) + second_bias


def softmax(x):
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def copy64(tokens, features, h, kernels, bias, slope):
    """(context, alpha, kappa, lambda) of one snippet and one state."""
    gated = features * leaky(h, slope)
    gated = gated / np.sqrt((gated**2).sum())
    alpha, kappa, meta = (convolve64(gated, kernel[..., None])[:, 0] for kernel in kernels)
    context = sum(a * token for a, token in zip(softmax(alpha), tokens, strict=True))
    return context, softmax(alpha), softmax(kappa), 1 / (1 + np.exp(-(meta.max() + bias)))


def arrays(window):
    random = np.random.default_rng(window)
    make = lambda *shape: random.standard_normal(shape)
    embeddings = make(B, S, D)
    return (embeddings, make(W1, D, K1), make(K1), make(W2, K1, K), make(K), make(D)), (
        make(B, T, K), make(3, window, K), make(),
    )  # fmt: skip


@pytest.mark.parametrize("slopes", [(0.1, 0.01), (0.0, 1.0)], ids=["released", "paper"])
@pytest.mark.parametrize("window", [2, 3], ids=["even padding", "odd padding"])
def test_attention_is_the_equations_snippet_by_snippet(window, slopes):
    """The loops compute each snippet alone and without padding, the kernel all snippets together and padded."""
    (embeddings, *parameters, edge), (state, kernels, bias) = arrays(window)
    narrow = lambda x: jnp.asarray(x, jnp.float32)

    @jax.jit
    def call(embeddings, mask):
        features = convolutional_features(
            embeddings, *map(narrow, (*parameters, edge)), window=window, mask=mask, negative_slope=slopes[0]
        )
        inputs = embeddings, features, narrow(state), *map(narrow, kernels), narrow(bias)
        return features, convolutional_copy_attention(*inputs, mask=mask, negative_slope=slopes[1])

    features, got = call(narrow(embeddings), jnp.asarray(MASK))
    for b, length in enumerate(LENGTHS):
        expected = features64(embeddings[b, :length], *parameters, edge, window, slopes[0])
        assert len(expected) == length + window - 1
        np.testing.assert_allclose(features[b, : len(expected)], expected, atol=2e-5, rtol=2e-5)
        for t in range(T):
            context, alpha, kappa, probability = copy64(
                embeddings[b, :length], expected, state[b, t], kernels, bias, slopes[1]
            )
            np.testing.assert_allclose(got.context[b, t], context, atol=1e-5)
            np.testing.assert_allclose(got.weights[b, t, :length], alpha, atol=1e-5)
            np.testing.assert_allclose(got.copy_weights[b, t, :length], kappa, atol=1e-5)
            np.testing.assert_allclose(got.copy_probability[b, t], probability, atol=1e-5)
    assert not got.weights[1, :, LENGTHS[1] :].any() and not got.copy_weights[1, :, LENGTHS[1] :].any()


def test_features_are_those_of_pytorch(torch):
    (embeddings, first, first_bias, second, second_bias, _), _ = arrays(2)
    turned = lambda x, *axes: torch.tensor(x.transpose(*axes))
    with torch.no_grad():
        x = torch.nn.functional.pad(turned(embeddings, 0, 2, 1), (3, 3))  # w1 + w2 + w3 - 3 = 6
        x = torch.nn.functional.conv1d(x, turned(first, 2, 1, 0), torch.tensor(first_bias))
        x = torch.nn.functional.leaky_relu(x, 0.1)
        expected = torch.nn.functional.conv1d(x, turned(second, 2, 1, 0), torch.tensor(second_bias)).numpy()
    inputs = (jnp.asarray(x, jnp.float32) for x in (embeddings, first, first_bias, second, second_bias))
    got = jax.jit(partial(convolutional_features, window=2))(*inputs)
    np.testing.assert_allclose(got, expected.transpose(0, 2, 1), atol=2e-5, rtol=2e-5)


def test_a_state_of_zeros_attends_to_all_tokens_alike():
    (embeddings, *_), (state, kernels, bias) = arrays(2)
    inputs = [jnp.asarray(x, jnp.float32) for x in (embeddings, np.ones((B, S + 1, K)), 0 * state, *kernels, bias)]
    call = jax.jit(partial(convolutional_copy_attention, mask=jnp.asarray(MASK)))
    got = call(*inputs)
    np.testing.assert_allclose(got.weights, np.where(MASK, 1 / np.array(LENGTHS)[:, None], 0)[:, None].repeat(T, 1))
    np.testing.assert_allclose(got.copy_probability, 1 / (1 + np.exp(-bias)), rtol=1e-6)
    gradients = jax.jit(jax.grad(lambda x: sum(jnp.sum(jnp.sin(y)) for y in call(*x))))(inputs)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def mixture64(probability, weights, copyable, log_vocabulary, unknown, released):
    expected = np.zeros((B, T))
    for b, t in np.ndindex(B, T):
        places = [s for s in range(S) if copyable[b, t, s]]
        copied = sum(weights[b, t, s] for s in places)
        if released:
            copying = np.log(probability[b, t]) + np.log(copied + 10e-8) if places else -1000.0
            generating = np.log(1 - probability[b, t]) + log_vocabulary[b, t] - 10 * unknown[b, t]
            expected[b, t] = np.logaddexp(copying, generating)
        else:
            mu = np.exp(-10) if unknown[b, t] and places else 1.0
            total = probability[b, t] * copied + (1 - probability[b, t]) * mu * np.exp(log_vocabulary[b, t])
            expected[b, t] = np.log(total)
    return expected


@pytest.mark.parametrize("released", [False, True], ids=["paper", "released"])
def test_the_mixture_counts_both_ways_to_a_target(released):
    random = np.random.default_rng(0)
    probability, log_vocabulary = random.random((B, T)), -5 * random.random((B, T))
    weights = random.random((B, T, S)) / S
    copyable, unknown = random.random((B, T, S)) < 0.2, np.array([[True, True, False], [False, False, True]])
    copyable[0, 1] = copyable[1, 0] = False
    expected = mixture64(probability, weights, copyable, log_vocabulary, unknown, released)
    got = copy_mixture_log_probability(
        *map(jnp.float32, (probability, weights)), jnp.asarray(copyable), jnp.float32(log_vocabulary),
        jnp.asarray(unknown), released=released,
    )  # fmt: skip
    np.testing.assert_allclose(got, expected, atol=1e-6, rtol=1e-5)


def test_the_mixture_over_all_words_sums_to_one():
    """A word that is in the vocabulary and in the source gets both parts of the mixture."""
    random = np.random.default_rng(1)
    V = 7
    ids = jnp.asarray(random.integers(0, V, (B, S)), jnp.int32)
    weights = jax.nn.softmax(jnp.float32(random.standard_normal((B, T, S))))
    log_vocabulary = jax.nn.log_softmax(jnp.float32(random.standard_normal((B, T, V))))
    probability = jnp.float32(random.random((B, T)))

    def likely(w):
        copyable = jnp.broadcast_to((ids == w)[:, None], (B, T, S))
        return copy_mixture_log_probability(probability, weights, copyable, log_vocabulary[..., w])

    together = np.exp(np.moveaxis(jax.jit(jax.vmap(likely))(jnp.arange(V)), 0, -1))
    np.testing.assert_allclose(together.sum(-1), 1, atol=1e-5)
    whole = probability[..., None] * copy_distribution(weights, ids, V)
    whole += (1 - probability[..., None]) * jnp.exp(log_vocabulary)
    np.testing.assert_allclose(together, whole, atol=1e-6)


@pytest.mark.parametrize("released", [False, True], ids=["paper", "released"])
@pytest.mark.parametrize("probability", [0.0, 1.0], ids=["generate", "copy"])
def test_mixtures_with_certainty_have_finite_gradients(probability, released):
    """lambda is exactly 0 or 1, as from a saturated sigmoid. One target is not in the source and one is unknown."""
    copyable = jnp.zeros((1, 3, 2), bool).at[0, 1:, 0].set(True)
    inputs = (jnp.full((1, 3), probability), jnp.full((1, 3, 2), 0.5), jnp.array([[-1.0, -2.0, -jnp.inf]]))
    call = jax.jit(lambda p, w, v: copy_mixture_log_probability(p, w, copyable, v, released=released))
    out, pull = jax.vjp(call, *inputs)
    assert np.isfinite(out).all()
    assert all(np.isfinite(x).all() for x in pull(jnp.ones_like(out)))
    likely = np.exp(out[0])
    np.testing.assert_allclose(likely[1], 0.5 if probability else np.exp(-2.0), rtol=1e-5)
