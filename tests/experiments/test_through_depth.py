"""Signals and gradients through depth.

Saturation is compared with SciPy's entropy and JAX's Jacobian of the softmax. A layer's gradient and the amplification
of a change are compared with finite differences.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from small_transformer import small_transformer

from attention_research.experiments.lectures.normalization.amplification import amplification
from attention_research.experiments.lectures.normalization.layer_gradients import MATRIX, gradient_norms
from attention_research.experiments.lectures.scaling.saturation import of_maps, saturation

L, D, B = 5, 11, 3
ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh, "sigmoid": scipy.special.expit,
               "swish": lambda x: x * scipy.special.expit(x)}  # fmt: skip


def test_saturation_is_scipys_entropy_and_jaxs_jacobian():
    logits = np.random.default_rng(0).normal(size=(5, 7)) * 2
    weights = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = saturation(weights)
    jacobians = [np.linalg.norm(np.asarray(jax.jacobian(jax.nn.softmax)(row))) for row in logits.astype(np.float32)]
    np.testing.assert_allclose(found["jacobian"], np.mean(jacobians), rtol=1e-5)
    np.testing.assert_allclose(found["entropy"], np.mean(scipy.stats.entropy(weights, axis=1)) / np.log(7))
    np.testing.assert_allclose(found["logit_variance"], logits.var(axis=1).mean())
    np.testing.assert_allclose(found["largest"], weights.max(axis=1).mean())


def test_hidden_keys_do_not_count():
    rng = np.random.default_rng(1)
    short = [rng.dirichlet(np.ones(n), 1) for n in (3, 5)]
    padded, seen = np.full((3, 6), 0.3), np.zeros((3, 6), bool)
    for row, one in enumerate(short):
        padded[row, : one.shape[1]], seen[row, : one.shape[1]] = one[0], True
    seen[2, :1] = True  # a row with one key has no information
    together = saturation(padded, seen)
    for name in together:
        np.testing.assert_allclose(together[name], np.mean([saturation(one)[name] for one in short]))
        np.testing.assert_allclose(of_maps(short)[name], together[name])


def test_a_one_hot_row_has_a_zero_jacobian():
    found = saturation(np.eye(4)[:1])
    assert (found["largest"], found["entropy"], found["jacobian"]) == (1.0, 0.0, 0.0)


@pytest.mark.slow
def test_every_layers_norm_is_that_of_the_losss_finite_differences():
    """For the real tokens only, entry by entry of each layer's matrix."""
    smooth = {"kind": "dense", "hidden_width": 17, "activation": "gelu"}  # a difference across a kink is not a slope
    model = {"kind": "transformer_decoder", "dropout_rate": 0.0, "feed_forward": smooth}
    structure, (parameters, statistics) = small_transformer(**model)
    batch = {"target": jnp.asarray(np.random.default_rng(1).integers(4, 29, (3, 7)), jnp.int32).at[0, 5:].set(0)}
    (name,) = (name for name in parameters if name.endswith(MATRIX))
    found = np.asarray(gradient_norms(structure, parameters, statistics, batch))
    assert found.shape == (2,) and found.min() > 0

    @jax.jit
    def values(matrix):
        found, _ = structure.merge({**parameters, name: matrix}, statistics).log_likelihood(batch)
        return found["log_likelihood"], found["mask"]

    def loss(matrix):
        likelihoods, real = map(np.asarray, values(matrix))
        return -likelihoods.astype(np.float64)[real].mean()

    matrix, step = np.asarray(parameters[name]), 0.01
    for layer in range(2):
        slopes = np.zeros(matrix.shape[1:])
        for place in np.ndindex(*slopes.shape):
            change = np.zeros_like(matrix)
            change[(layer, *place)] = step
            slopes[place] = (loss(jnp.asarray(matrix + change)) - loss(jnp.asarray(matrix - change))) / (2 * step)
        np.testing.assert_allclose(found[layer], np.linalg.norm(slopes), rtol=1e-3)


def layers(weights, x, activation, normalised):
    found = []
    for weight in weights:
        x = x @ weight
        if normalised:
            x = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-6)
        x = ACTIVATIONS[activation](x)
        found.append(x)
    return np.stack(found)


@pytest.mark.slow
@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_amplification_equals_the_relative_change_of_small_inputs(activation, normalised):
    rng = np.random.default_rng(0)
    weights, change = rng.standard_normal((L, D, D)) * 1.5 * D**-0.5, rng.standard_normal((D, D))
    x, step = rng.standard_normal((B, D)), 1e-6
    start = layers(weights, x, activation, normalised)
    moved = weights.copy()
    moved[0] += step * change
    size = lambda y: np.linalg.norm(y, axis=(1, 2))
    relative = step * np.linalg.norm(change) / np.linalg.norm(weights[0])
    want = size(layers(moved, x, activation, normalised) - start) / size(start) / relative
    arrays = (jnp.asarray(array, jnp.float32) for array in (weights, change, x))
    found, ranges = amplification(*arrays, activation, normalised=normalised)
    np.testing.assert_allclose(found, want, rtol=1e-3)
    np.testing.assert_allclose(ranges, np.sqrt((start**2).mean(axis=(1, 2))), rtol=1e-4)
