"""Root mean square layer normalisation against its equation, PyTorch's gradients and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from attention_research.kernels import rms_norm


def norm64(x, scale, epsilon):
    x = np.asarray(x, np.float64)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * np.asarray(scale, np.float64)


@pytest.mark.parametrize("epsilon", [1e-6, 0.5])
def test_equals_the_equation_and_keeps_the_mean(epsilon, normal):
    scale = normal(11)
    for x in (normal(2, 3, 11), 1000 + normal(5, 11), 1e-4 * normal(7, 11)):
        np.testing.assert_allclose(rms_norm(x, scale, epsilon=epsilon), norm64(x, scale, epsilon), rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_gradients_are_pytorchs_and_finite_differences(normal, torch):
    x, scale, weight = normal(3, 7, 11), normal(11), normal(3, 7, 11)
    leaves = [torch.tensor(np.asarray(array)).requires_grad_() for array in (x, scale)]
    output = torch.nn.functional.rms_norm(leaves[0], (11,), leaves[1], eps=1e-6)
    (output * torch.tensor(np.asarray(weight))).sum().backward()
    gradients = jax.grad(lambda *a: jnp.vdot(rms_norm(*a), weight), (0, 1))(x, scale)
    for got, leaf in zip(gradients, leaves, strict=True):
        np.testing.assert_allclose(got, leaf.grad.numpy(), atol=1e-5, rtol=1e-4)
    with jax.enable_x64(True):
        inputs = tuple(array.astype(jnp.float64) for array in (x, scale))
        check_grads(jax.jit(rms_norm), inputs, order=1, modes=["rev"], atol=1e-6, rtol=1e-6)


def test_bfloat16_keeps_a_float32_mean_square(normal):
    x, scale = 10 + normal(5, 1031), normal(1031)
    low = rms_norm(x.astype(jnp.bfloat16), scale)
    assert low.dtype == jnp.bfloat16
    rounded = norm64(x.astype(jnp.bfloat16).astype(jnp.float32), scale, 1e-6)
    np.testing.assert_allclose(low.astype(jnp.float32), rounded, rtol=2**-8, atol=1e-5)


def test_a_gain_of_another_width_is_named(normal, unchecked):
    with pytest.raises(ValueError, match=r"scale: axis D: expected \[11\]"):
        rms_norm(normal(3, 11), normal(1))
