"""Lightweight and dynamic convolution against the paper's equations in float64 and PyTorch's depthwise convolution."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import dynamic_convolution, lightweight_convolution
from attention_research.kernels.no_dot_product import dynamic_convolution_step, lightweight_convolution_step
from tests.tiers import fast_are

B, T, D = 2, 11, 6
REAL = np.arange(T) < np.array([[8], [0]])
SETTINGS = {
    "symmetric": (3, 5, False),
    "even": (3, 4, False),
    "causal": (3, 5, True),
    "unshared": (6, 3, False),
    "one_head": (1, 13, True),
}


def convolved64(x, kernels, is_causal, real):
    """y_ic = sum_w softmax(kernel of i)_h(c),w x_(i+w-left),c for kernels [B T N W], 0 outside and at padding."""
    x = np.asarray(x, np.float64)
    kernels = np.exp(kernels) / np.exp(kernels).sum(-1, keepdims=True)
    N, W = kernels.shape[-2:]
    left = W - 1 if is_causal else int(np.ceil((W + 1) / 2)) - 1
    y = np.zeros(x.shape)
    for b, i, c, w in np.ndindex(B, T, D, W):
        j = i + w - left
        if 0 <= j < T and real[b, j]:
            y[b, i, c] += kernels[b, i, int(np.ceil((c + 1) * N / D)) - 1, w] * x[b, j, c]
    return y


@pytest.mark.parametrize("N, W, is_causal", fast_are(["even", "causal"], SETTINGS, several=True))
def test_lightweight_convolution_is_the_equation(N, W, is_causal, normal):
    x, kernel = normal(B, T, D), normal(N, W)
    kernels = np.broadcast_to(np.asarray(kernel, np.float64), (B, T, N, W))
    for mask in (None, REAL):
        got = lightweight_convolution(x, kernel, mask=None if mask is None else jnp.asarray(mask), is_causal=is_causal)
        expected = convolved64(x, kernels, is_causal, np.ones((B, T), bool) if mask is None else mask)
        np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("N, W, is_causal", fast_are(["even", "causal"], SETTINGS, several=True))
def test_dynamic_convolution_is_the_equation(N, W, is_causal, normal):
    x, weight, bias = normal(B, T, D), normal(N, W, D), normal(N, W)
    kernels = np.zeros((B, T, N, W))
    wide, inputs = np.asarray(weight, np.float64), np.asarray(x)
    for b, i, n, w in np.ndindex(B, T, N, W):
        kernels[b, i, n, w] = wide[n, w] @ inputs[b, i]
    for added, mask in ((None, None), (bias, REAL)):
        got = dynamic_convolution(
            x, weight, added, mask=None if mask is None else jnp.asarray(mask), is_causal=is_causal
        )
        moved = kernels if added is None else kernels + np.asarray(added, np.float64)
        expected = convolved64(x, moved, is_causal, np.ones((B, T), bool) if mask is None else mask)
        np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("is_causal", [False, True], ids=["symmetric", "causal"])
def test_lightweight_convolution_is_torchs_depthwise_convolution(is_causal, normal, torch):
    x, kernel = normal(B, T, D), normal(3, 5)
    taps = torch.softmax(torch.tensor(np.asarray(kernel, np.float64)), -1).repeat_interleave(D // 3, 0)[:, None]
    padded = torch.nn.functional.pad(torch.tensor(np.asarray(x, np.float64)).mT, (4, 0) if is_causal else (2, 2))
    expected = torch.nn.functional.conv1d(padded, taps, groups=D).mT.numpy()
    np.testing.assert_allclose(lightweight_convolution(x, kernel, is_causal=is_causal), expected, atol=1e-5)


def test_a_constant_dynamic_kernel_is_the_lightweight_one(normal):
    x, kernel = normal(B, T, D), normal(3, 5)
    got = dynamic_convolution(x, jnp.zeros((3, 5, D)), kernel, is_causal=True)
    np.testing.assert_allclose(got, lightweight_convolution(x, kernel, is_causal=True), atol=1e-6)


def test_steps_pass_padding_as_zeros(normal):
    """Decoding after left padding: padding leaves the state at zero."""
    x, kernel, weight = normal(B, T, D), normal(3, 5), normal(3, 5, D)
    real = jnp.asarray(np.arange(T) >= np.array([[2], [4]]))
    for step, whole, parameter in (
        (lightweight_convolution_step, lightweight_convolution, kernel),
        (dynamic_convolution_step, dynamic_convolution, weight),
    ):
        state = jnp.zeros((B, 4, D))
        expected = whole(x, parameter, mask=real, is_causal=True)
        step = jax.jit(step)
        for t in range(T):
            state, y = step(state, jnp.where(real[:, t, None], x[:, t], 0.0), parameter)
            np.testing.assert_allclose(y[real[:, t]], expected[:, t][real[:, t]], atol=1e-5)


def test_nothing_of_positions_times_positions_is_formed(normal):
    T = 41
    x, weight = normal(B, T, D), normal(3, 5, D)
    jaxpr = jax.make_jaxpr(jax.grad(lambda x, w: dynamic_convolution(x, w).sum(), (0, 1)))(x, weight).jaxpr
    shapes = [result.aval.shape for equation in jaxpr.eqns for result in equation.outvars]
    assert len(shapes) > 10 and all(sum(size >= T for size in shape) <= 1 for shape in shapes)


def test_errors_name_the_axis(normal, unchecked):
    with pytest.raises(ValueError, match="x: axis D of .*: expected a multiple of the 4 heads, got 6"):
        lightweight_convolution(normal(B, T, D), normal(4, 5))
    with pytest.raises(ValueError, match="x: axis D of .*: expected a multiple of the 4 heads, got 6"):
        lightweight_convolution_step(normal(B, 4, D), normal(B, D), normal(4, 5))
    with pytest.raises(ValueError, match="state: axis 4 of .*: expected 4, got 5"):
        lightweight_convolution_step(normal(B, 5, D), normal(B, D), normal(3, 5))
    with pytest.raises(ValueError, match="weight: axis D of .*: expected 6 as in x, got 5"):
        dynamic_convolution(normal(B, T, D), normal(3, 5, 5))
