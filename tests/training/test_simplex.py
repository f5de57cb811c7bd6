"""The projection of branch weights after an update, against the two lines of the released code in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from attention_research.training.optimizers import SGD, Adafactor
from attention_research.training.simplex import Simplex

NAMES = {
    "decoder.stack.segments.0.self_attention.branches.kappa": (4, 3),
    "encoder.self_attention.branches.alpha": (3,),
    "encoder.stack.segments.0.residual.alpha": (4,),
    "encoder.stack.segments.0.self_attention.branches.feed_forward.hidden.kernel": (4, 5, 3),
}


def values(seed):
    rng = np.random.default_rng(seed)
    return {name: jnp.asarray(rng.standard_normal(shape), jnp.float32) for name, shape in NAMES.items()}


def updated(optimizer, gradients, parameters):
    transformation = optimizer(lambda count: jnp.asarray(0.3, jnp.float32))
    state = transformation.init(parameters)
    updates, _ = jax.jit(transformation.update)(gradients, state, parameters)
    return optax.apply_updates(parameters, updates)


@pytest.mark.parametrize("inner", (SGD, lambda: Adafactor(min_dim_size_to_factor=2)), ids=("sgd", "adafactor"))
def test_weights_of_branches_are_projected_and_nothing_else(inner):
    parameters, gradients = values(0), values(1)
    plain, got = (updated(make, gradients, parameters) for make in (inner(), Simplex(inner=inner)))
    for name, x in got.items():
        wanted = np.asarray(plain[name], np.float64)
        if "branches.kappa" in name or "branches.alpha" in name:
            z = np.maximum(wanted, 0)
            wanted = z / (z + 1e-4).sum(-1, keepdims=True)
            alive = (z > 0).any(-1)  # if every weight has become negative, all are 0
            np.testing.assert_allclose(np.asarray(x).sum(-1), alive, atol=2e-3)
        np.testing.assert_allclose(x, wanted, atol=2e-6, err_msg=name)
