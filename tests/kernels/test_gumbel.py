"""Gumbel-softmax and its straight-through form: Jang et al. 2017, section 2, against PyTorch's autograd."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels.selection import gumbel_attention, gumbel_softmax
from tests.kernels.conftest import softmax64

B, T, S, DV = 2, 3, 5, 7
sample = jax.jit(gumbel_softmax, static_argnames="straight_through")
MASK = jnp.asarray(np.random.default_rng(4).random((B, T, S)) < 0.7).at[0, 1].set(False)


@pytest.mark.parametrize("straight_through", [True, False], ids=["straight_through", "soft"])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_weights_are_torchs_with_its_gradients(straight_through, temperature, normal, monkeypatch, torch):
    """torch.nn.functional.gumbel_softmax with the same noise, row by row over the visible keys."""
    scores, cotangent, key = normal(B, T, S), normal(B, T, S), jax.random.key(2)
    noise = np.asarray(jax.random.gumbel(key, (B, T, S), jnp.float32))
    call = lambda x: sample(key, x, MASK, temperature=jnp.float32(temperature), straight_through=straight_through)
    weights, pull = jax.vjp(call, scores)
    (gradient,) = pull(cotangent)
    scores, cotangent, weights, gradient, mask = map(np.asarray, (scores, cotangent, weights, gradient, MASK))
    for b, t in np.ndindex(B, T):
        seen = mask[b, t]
        assert not np.any(weights[b, t][~seen]) and not np.any(gradient[b, t][~seen])
        if not seen.any():
            continue
        exponential = torch.from_numpy(np.exp(-noise[b, t][seen].astype(np.float64)))  # torch's noise is -log of it
        monkeypatch.setattr(torch.Tensor, "exponential_", lambda self, e=exponential: e)
        logits = torch.tensor(np.asarray(scores[b, t][seen], np.float64), requires_grad=True)
        theirs = torch.nn.functional.gumbel_softmax(logits, tau=temperature, hard=straight_through)
        theirs.backward(torch.from_numpy(np.asarray(cotangent[b, t][seen], np.float64)))
        np.testing.assert_allclose(weights[b, t][seen], theirs.detach().numpy(), atol=2e-6)
        np.testing.assert_allclose(gradient[b, t][seen], logits.grad.numpy(), atol=1e-5)


def test_the_straight_through_weights_are_exactly_one_hot_samples_of_the_softmax(normal):
    scores = normal(1, 2, S)
    mask = MASK[1:, :2]
    keys = jax.random.split(jax.random.key(0), 20_000)
    many = jax.vmap(lambda key, t: sample(key, scores, mask, temperature=t), (0, None))
    weights = np.asarray(many(keys, jnp.float32(0.4)))
    assert set(np.unique(weights)) == {0.0, 1.0} and np.all(weights.sum(-1) == 1)
    expected = softmax64(np.asarray(scores, np.float64), np.asarray(mask))
    deviation = np.sqrt(expected * (1 - expected) / len(keys))
    assert np.all(np.abs(weights.mean(axis=0) - expected) <= 4 * deviation)
    np.testing.assert_array_equal(many(keys[:100], jnp.float32(1e-3)), weights[:100])  # at every temperature


def test_without_a_key_it_is_the_softmax_or_its_argmax(normal):
    scores, values = normal(B, T, S), normal(B, S, DV)
    soft = softmax64(np.asarray(scores, np.float64) / 2, np.asarray(MASK))
    context, weights = gumbel_attention(None, scores, values, MASK, temperature=2, straight_through=False)
    np.testing.assert_allclose(weights, soft, atol=1e-6)
    np.testing.assert_allclose(context, soft @ np.asarray(values, np.float64), atol=2e-6)
    context, weights, values = map(np.asarray, (*gumbel_attention(None, scores, values, MASK), values))
    np.testing.assert_array_equal(weights, (soft == soft.max(-1, keepdims=True)) & np.asarray(MASK))
    for b, t in np.argwhere(np.asarray(MASK).any(-1)):
        np.testing.assert_array_equal(context[b, t], values[b, soft[b, t].argmax()])


def test_the_temperatures_gradient_equals_finite_differences_with_masked_scores(normal):
    with jax.enable_x64(True):
        scores, key = normal(B, T, S).astype(jnp.float64), jax.random.key(0)
        weight = normal(B, T, S).astype(jnp.float64)
        of = lambda t: jnp.vdot(sample(key, scores, MASK, temperature=t, straight_through=False), weight)
        want = (of(jnp.float64(0.7 + 1e-6)) - of(jnp.float64(0.7 - 1e-6))) / 2e-6
        np.testing.assert_allclose(jax.grad(of)(jnp.float64(0.7)), want, rtol=1e-6)


def test_a_temperature_of_0_is_refused():
    with pytest.raises(ValueError, match="temperature: expected more than 0, got 0"):
        gumbel_softmax(None, jnp.ones((1, 1, 2)), temperature=0.0)
