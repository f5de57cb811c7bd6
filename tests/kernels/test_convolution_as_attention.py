"""A K x K convolution equals K^2 hard-attention heads: against loops over the filter, lax.conv and PyTorch."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import dot_product_attention
from attention_research.kernels.vision import convolution_as_attention, head_offsets, offset_scores, offset_weights

B, Y, X, C, F = 2, 5, 7, 3, 11
FILTERS = {"1x1": (1, 1), "3x3": (3, 3), "5x3": (5, 3), "2x4": (2, 4), "larger than the image": (13, 3)}


def arrays(rows, columns):
    random = np.random.default_rng(rows)
    return random.standard_normal((B, Y, X, C)), random.standard_normal((rows, columns, C, F)) / rows


def convolution64(x, kernel):
    """Computes each output pixel tap by tap. Pixels outside the image are 0."""
    rows, columns = kernel.shape[:2]
    out = np.zeros((B, Y, X, F))
    for i, j, u, v in np.ndindex(Y, X, rows, columns):
        y, z = i + u - (rows - 1) // 2, j + v - (columns - 1) // 2
        if 0 <= y < Y and 0 <= z < X:
            out[:, i, j] += x[:, y, z] @ kernel[u, v]
    return out


@pytest.mark.parametrize("mode", ["gather", "weights"])
@pytest.mark.parametrize("rows, columns", FILTERS.values(), ids=FILTERS)
def test_a_convolution_is_one_head_per_tap(rows, columns, mode):
    x, kernel = arrays(rows, columns)
    call = jax.jit(partial(convolution_as_attention, mode=mode))
    got = call(jnp.asarray(x, jnp.float32), jnp.asarray(kernel, jnp.float32))
    np.testing.assert_allclose(got, convolution64(x, kernel), atol=5e-6)
    layout = ("NHWC", "HWIO", "NHWC")
    with jax.enable_x64(True):  # the identity itself, in float64
        inputs = jnp.asarray(x), jnp.asarray(kernel)
        expected = jax.lax.conv_general_dilated(*inputs, (1, 1), "SAME", dimension_numbers=layout)
        np.testing.assert_allclose(call(*inputs), expected, atol=1e-12)


def test_a_convolution_of_unit_size_equals_that_of_lax_to_1e_6_in_float32():
    x, kernel = arrays(3, 3)
    inputs = jnp.asarray(x, jnp.float32), jnp.asarray(kernel / 9, jnp.float32)
    expected = jax.lax.conv_general_dilated(*inputs, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    for mode in ("gather", "weights"):
        np.testing.assert_allclose(convolution_as_attention(*inputs, mode=mode), expected, atol=1e-6, rtol=0)


def test_a_convolution_is_that_of_pytorch(torch):
    x, kernel = arrays(5, 3)
    image, taps = torch.tensor(x.transpose(0, 3, 1, 2)), torch.tensor(kernel.transpose(3, 2, 0, 1))
    expected = torch.nn.functional.conv2d(image, taps, padding="same").numpy().transpose(0, 2, 3, 1)
    got = convolution_as_attention(jnp.asarray(x, jnp.float32), jnp.asarray(kernel, jnp.float32))
    np.testing.assert_allclose(got, expected, atol=5e-6)


def test_heads_attend_with_weight_one_to_one_pixel_or_to_none():
    """For each offset, the pixel that a query attends to is the query's position plus the head's offset."""
    offsets = head_offsets(5, 3)
    weights = np.asarray(offset_weights(offsets, Y, X)).reshape(15, Y, X, Y, X)
    assert offsets.tolist() == [[y, x] for y in (-2, -1, 0, 1, 2) for x in (-1, 0, 1)]
    for head, i, j in np.ndindex(15, Y, X):
        y, x = np.array([i, j]) + offsets[head]
        expected = [[y, x]] if 0 <= y < Y and 0 <= x < X else []
        assert np.argwhere(weights[head, i, j]).tolist() == expected
    assert set(np.unique(weights)) == {0.0, 1.0}


def test_sharp_attention_over_relative_positions_becomes_the_convolution():
    """Lemma 2 by `dot_product_attention`: zero queries and keys, a bias by relative position, one value per head."""
    x, kernel = arrays(3, 3)
    offsets = head_offsets(3, 3)
    values = jnp.einsum("BSC,NCF->BSNF", jnp.float32(x).reshape(B, Y * X, C), jnp.float32(kernel).reshape(9, C, F))
    inside = offset_weights(offsets, Y, X).any(-1)[None, :, :, None]
    nothing = jnp.zeros((B, Y * X, 9, 1), jnp.float32)

    attend = jax.jit(lambda bias: dot_product_attention(nothing, nothing, values, bias, mask=inside))

    def error(sharpness):
        heads = attend(offset_scores(offsets, Y, X, sharpness))
        return np.abs(np.asarray(heads.sum(2)).reshape(B, Y, X, F) - convolution64(x, kernel)).max()

    errors = [error(sharpness) for sharpness in (5.0, 7.0, 40.0)]
    assert 0.9 < errors[0] / errors[1] / np.exp(2.0) < 1.1  # decreases as exp(-sharpness)
    assert errors[2] < 5e-6


def test_an_unknown_mode_is_refused(unchecked):
    with pytest.raises(ValueError, match="mode: expected one of gather, weights, got 'shift'"):
        convolution_as_attention(jnp.ones((B, Y, X, C)), jnp.ones((3, 3, C, F)), mode="shift")
