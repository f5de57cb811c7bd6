"""Linformer attention, equation 7, in its sharing modes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from attention_research.kernels import dot_product_attention, linformer_attention
from attention_research.kernels.efficient import compress
from tests.kernels.conftest import softmax64

B, T, S, N, H, HV, R = 2, 5, 13, 3, 7, 11, 4
SHARING = {"headwise": False, "none": True}


def arrays(normal, per_head: bool):
    projection = (N, R, S) if per_head else (R, S)
    return normal(B, T, N, H), normal(B, S, N, H), normal(B, S, N, HV), normal(*projection), normal(*projection)


MASK = jnp.asarray(np.arange(S) < np.array([[9], [0]]))


def linformer64(query, key, value, e, f, mask):
    """softmax(Q (E K)^T / sqrt(H)) (F V), head by head, with keys and values of padding set to zero."""
    query, key, value, e, f = (np.asarray(x, np.float64) for x in (query, key, value, e, f))
    out = np.zeros((B, T, N, HV))
    for b, n in np.ndindex(B, N):
        real = np.asarray(mask[b])[:, None]
        shorter = (e[n] if e.ndim == 3 else e) @ (key[b, :, n] * real)
        values = (f[n] if f.ndim == 3 else f) @ (value[b, :, n] * real)
        logits = query[b, :, n] @ shorter.T / np.sqrt(H)
        out[b, :, n] = softmax64(logits, np.ones_like(logits, bool)) @ values
    return out


@pytest.mark.parametrize("per_head", SHARING.values(), ids=SHARING)
def test_linformer_is_the_equation(per_head, normal):
    inputs = arrays(normal, per_head)
    for mask in (None, MASK):
        expected = linformer64(*inputs, np.ones((B, S), bool) if mask is None else MASK)
        np.testing.assert_allclose(linformer_attention(*inputs, mask=mask), expected, atol=5e-6, rtol=5e-5)


@pytest.mark.slow
def test_one_matrix_for_keys_and_values_gets_both_gradients(normal):
    *inputs, e, _ = arrays(normal, False)
    shared = jax.grad(lambda e: linformer_attention(*inputs, e, e, mask=MASK).sum())(e)
    apart = jax.grad(lambda e, f: linformer_attention(*inputs, e, f, mask=MASK).sum(), (0, 1))(e, e)
    np.testing.assert_allclose(shared, apart[0] + apart[1], atol=1e-5)


@pytest.mark.parametrize("per_head", SHARING.values(), ids=SHARING)
def test_linformer_gradients_are_finite_differences_in_float64(per_head, normal):
    with jax.enable_x64(True):
        inputs = tuple(x.astype(jnp.float64) for x in arrays(normal, per_head))
        attend = jax.jit(lambda *x: linformer_attention(*x, mask=MASK))
        check_grads(attend, inputs, order=1, modes=["rev"], atol=1e-6, rtol=1e-6)


@pytest.mark.slow
def test_padding_does_not_matter_and_an_example_of_padding_is_zero(normal):
    query, key, value, e, f = arrays(normal, True)
    garbage = [jnp.where(MASK[:, :, None, None], x, jnp.nan) for x in (key, value)]
    output, pull = jax.vjp(lambda *x: linformer_attention(*x, mask=MASK), query, *garbage, e, f)
    np.testing.assert_array_equal(output, linformer_attention(query, key, value, e, f, mask=MASK))
    assert not np.any(output[1]) and np.any(output[0])
    for gradient in pull(jnp.ones_like(output).at[0].set(0)):
        assert not np.any(gradient)


@pytest.mark.slow
def test_the_identity_projection_is_plain_attention_and_the_order_of_positions_is_the_projections(normal):
    query, key, value, e, f = arrays(normal, False)
    identity = jnp.eye(S)
    np.testing.assert_allclose(
        linformer_attention(query, key, value, identity, identity), dot_product_attention(query, key, value), atol=1e-6
    )
    order = np.random.default_rng(0).permutation(S)
    moved = linformer_attention(query, key[:, order], value[:, order], e[:, order], f[:, order])
    np.testing.assert_allclose(moved, linformer_attention(query, key, value, e, f), atol=1e-5)


def test_compress_is_a_product_over_positions(normal):
    _, key, _, e, _ = arrays(normal, True)
    expected = np.einsum("nrs,bsnh->brnh", np.asarray(e, np.float64), np.asarray(key, np.float64))
    np.testing.assert_allclose(compress(key, e), expected, atol=1e-5)
    np.testing.assert_allclose(compress(key, e[0])[:, :, 0], expected[:, :, 0], atol=1e-5)


def test_errors_name_the_axis(normal, unchecked):
    query, key, value, e, f = arrays(normal, False)
    with pytest.raises(ValueError, match=r"key_projection: expected .* with S = 13, got shape \[4, 12\]"):
        linformer_attention(query, key, value, e[:, :12], f)
    with pytest.raises(ValueError, match=r"value_projection: axis N of \[N R S\]: expected 3 heads, got 2"):
        linformer_attention(query, key, value, e, jnp.stack([f, f]))
    with pytest.raises(ValueError, match="value_projection: axis R: expected key_projection's 4, got 3"):
        linformer_attention(query, key, value, e, f[:3])
    with pytest.raises(ValueError, match=r"mask: expected \[B S\] = \[2, 13\], got shape \[2, 5\]"):
        linformer_attention(query, key, value, e, f, mask=MASK[:, :5])
