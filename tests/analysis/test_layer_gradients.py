"""The gradient by layer against finite differences of the loss in the layer's matrix."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.analysis.layer_gradients import MATRIX, gradient_norms


@pytest.mark.slow
def test_every_layers_norm_is_that_of_the_losss_finite_differences(small):
    """Over the real tokens alone, entry by entry of each layer's matrix."""
    smooth = {"kind": "dense", "hidden_width": 17, "activation": "gelu"}  # a difference across a kink is no slope
    structure, (parameters, statistics) = small(kind="transformer_decoder", dropout_rate=0.0, feed_forward=smooth)
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
