"""Saturation against SciPy's entropy and JAX's Jacobian of the softmax."""

import jax
import numpy as np
import scipy.stats

from attention_research.analysis.saturation import of_maps, saturation


def test_it_is_scipys_entropy_and_jaxs_jacobian():
    logits = np.random.default_rng(0).normal(size=(5, 7)) * 2
    weights = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = saturation(weights)
    jacobians = [np.linalg.norm(np.asarray(jax.jacobian(jax.nn.softmax)(row))) for row in logits.astype(np.float32)]
    np.testing.assert_allclose(found["jacobian"], np.mean(jacobians), rtol=1e-5)
    np.testing.assert_allclose(found["entropy"], np.mean(scipy.stats.entropy(weights, axis=1)) / np.log(7))
    np.testing.assert_allclose(found["logit_variance"], logits.var(axis=1).mean())
    np.testing.assert_allclose(found["largest"], weights.max(axis=1).mean())


def test_keys_that_are_not_seen_do_not_count():
    rng = np.random.default_rng(1)
    short = [rng.dirichlet(np.ones(n), 1) for n in (3, 5)]
    padded, seen = np.full((3, 6), 0.3), np.zeros((3, 6), bool)
    for row, one in enumerate(short):
        padded[row, : one.shape[1]], seen[row, : one.shape[1]] = one[0], True
    seen[2, :1] = True  # a row of one key says nothing
    together = saturation(padded, seen)
    for name in together:
        np.testing.assert_allclose(together[name], np.mean([saturation(one)[name] for one in short]))
        np.testing.assert_allclose(of_maps(short)[name], together[name])


def test_a_row_that_is_all_on_one_key_lets_nothing_through():
    found = saturation(np.eye(4)[:1])
    assert (found["largest"], found["entropy"], found["jacobian"]) == (1.0, 0.0, 0.0)
