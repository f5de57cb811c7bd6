"""The layers of the complexity tables: equations in NumPy, counts against the literature's formulas."""

import jax
import numpy as np
import pytest
from flax import nnx

from attention_research.experiments.vaswani2017.sequence_layers import (
    KINDS,
    Sizes,
    formula,
    multiply_adds,
    sequence_layer,
)

T, D, N = 13, 8, 2


def made(kind, **sizes):
    layer = sequence_layer(kind, Sizes(D, num_heads=N, **sizes))
    module, x = layer.make(nnx.Rngs(0)), jax.random.normal(jax.random.key(1), (2, T, D))
    return module, np.asarray(x, np.float64), np.asarray(layer.apply(module, x))


@pytest.mark.parametrize("dilation", [1, 2, 3, 5])
def test_a_dilated_convolution_leaves_positions_out(dilation):
    module, x, y = made("dilated", dilation=dilation)
    kernel, want = np.asarray(module.kernel[...], np.float64), np.zeros_like(x)
    for t in range(T):
        for tap in range(3):
            s = t + (tap - 1) * dilation
            if 0 <= s < T:
                want[:, t] += x[:, s] @ kernel[tap]
    np.testing.assert_allclose(y, want, atol=1e-5)


@pytest.mark.parametrize("reach", [None, 3, 7])
def test_the_cores_of_attention_are_its_equation(reach):
    kind, sizes = ("attention_core", {}) if reach is None else ("restricted_core", {"neighbourhood": reach})
    _, x, y = made(kind, **sizes)
    heads = x.reshape(2, T, N, D // N)
    scores = np.einsum("btnh,bsnh->bnts", heads, heads) / np.sqrt(D // N)
    far = np.abs(np.subtract.outer(np.arange(T), np.arange(T))) > (T if reach is None else reach // 2)
    weights = np.exp(scores) * ~far
    weights /= weights.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(y, np.einsum("bnts,bsnh->btnh", weights, heads).reshape(2, T, D), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_count_is_the_formulas(kind):
    """In addition to the products there are the gates of a recurrence and the softmax's scale. A window uses blocks."""
    sizes = Sizes(64)
    ratio = multiply_adds(kind, sizes, 256) / formula(kind, sizes, 256)
    assert 1 <= ratio < (1.5 if kind == "restricted_core" else 1.01)


def test_another_kind_is_named_an_error():
    with pytest.raises(ValueError, match="'pooling': expected one of attention_core"):
        sequence_layer("pooling", Sizes(D))
