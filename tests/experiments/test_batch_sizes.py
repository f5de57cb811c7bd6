"""The fitted network against PyTorch's batch norm and layer norm, in training and evaluation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.experiments.lectures.normalization.batch_sizes import (
    EPSILON,
    LAYERS,
    apply,
    draw_weights,
    measure_batch_sizes,
    train_errors,
)

B, D = 7, 5


@pytest.fixture(scope="module")
def drawn():
    key = jax.random.key(0)
    weights = draw_weights(key, D)
    weights = {name: value + 0.3 * jax.random.normal(key, value.shape) for name, value in weights.items()}
    return weights, 1 + 2 * jax.random.normal(jax.random.key(1), (B, D))


def by_torch(torch, weights, x, norm):
    """The stack with PyTorch's functions in float64."""
    tensors = {name: torch.tensor(np.asarray(value), dtype=torch.float64) for name, value in weights.items()}
    y = torch.tensor(np.asarray(x), dtype=torch.float64)
    for layer in range(LAYERS):
        y = norm(layer, y @ tensors["hidden"][layer], tensors["gain"][layer], tensors["bias"][layer])
        y = torch.relu(y)
    return (y @ tensors["output"]).numpy()


@pytest.mark.slow
def test_training_equals_pytorch(drawn, torch):
    functional = torch.nn.functional
    norms = {
        "layer_norm": lambda _, y, gain, bias: functional.layer_norm(y, (D,), gain, bias, eps=EPSILON),
        "batch_norm": lambda _, y, gain, bias: functional.batch_norm(
            y, None, None, gain, bias, training=True, eps=EPSILON
        ),
    }
    for name, norm in norms.items():
        np.testing.assert_allclose(apply(*drawn, name)[0], by_torch(torch, *drawn, norm), rtol=1e-4, atol=1e-4)


def test_evaluation_uses_running_statistics_and_no_other_sample(drawn, torch):
    weights, x = drawn
    kept = (0.5 + jnp.arange(LAYERS * D, dtype=jnp.float32).reshape(LAYERS, D) / 10, jnp.full((LAYERS, D), 3.0))
    norm = lambda layer, y, gain, bias: torch.nn.functional.batch_norm(
        y, *(torch.tensor(np.asarray(one[layer]), dtype=torch.float64) for one in kept), gain, bias, eps=EPSILON
    )
    outputs = apply(weights, x, "batch_norm", kept)[0]
    np.testing.assert_allclose(outputs, by_torch(torch, weights, x, norm), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(outputs[:1], apply(weights, x[:1], "batch_norm", kept)[0], rtol=1e-5)


def test_the_statistics_are_the_batchs_before_the_norm(drawn):
    weights, x = drawn
    means, variances = apply(weights, x, "layer_norm")[1]
    first = np.asarray(x, np.float64) @ np.asarray(weights["hidden"][0], np.float64)
    np.testing.assert_allclose(means[0], first.mean(axis=0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(variances[0], first.var(axis=0), rtol=1e-4)


@pytest.mark.slow
def test_training_lowers_the_error_unless_the_rate_is_zero():
    errors = train_errors(jax.random.key(0), norm="layer_norm", width=8, batch_size=16, samples=8192, rates=(0.0, 0.01))
    assert (errors[0] > 0.9).all() and (errors[1] < 0.6).all()
    np.testing.assert_array_equal(errors[:, :, 0], errors[:, :, 1])  # layer norm keeps no statistics
    assert (errors[:, 0, 0] != errors[:, 1, 0]).all()  # validation and test samples differ


@pytest.mark.slow
def test_the_best_rate_is_chosen_for_each_batch_size():
    sizes = {"norm": "batch_norm", "width": 8, "batch_sizes": (4, 16), "trained_samples": 1024, "seed": 0}
    found = measure_batch_sizes(rates=(0.0, 0.01), **sizes)
    alone = measure_batch_sizes(rates=(0.01,), **sizes)
    np.testing.assert_allclose(found["losses"], alone["losses"], rtol=1e-4)
    assert found["loss_ratio"] == found["losses"][0] / found["losses"][1]
    assert measure_batch_sizes(rates=(float("nan"),), **sizes)["losses"] == [None, None]
