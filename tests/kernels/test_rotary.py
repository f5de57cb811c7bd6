"""Rotary positions as complex products, and compared with Hugging Face Transformers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import rotary

B, T, N, H = 2, 11, 3, 14


def complex64(x, positions, base=10000.0):
    """x_2i + sqrt(-1) x_2i+1 times e^(sqrt(-1) p base^(-2i/H)), in complex128; positions [B T]."""
    x = np.asarray(x, np.float64)
    out = np.zeros(x.shape)
    for b, t, n, i in np.ndindex(*x.shape[:3], x.shape[3] // 2):
        z = complex(*x[b, t, n, 2 * i : 2 * i + 2])
        z *= np.exp(1j * float(positions[b][t]) * base ** (-2 * i / x.shape[3]))
        out[b, t, n, 2 * i : 2 * i + 2] = z.real, z.imag
    return out


@pytest.mark.parametrize("base", [10000.0, 13.0])
def test_rotary_is_a_complex_product(base, normal):
    x = normal(B, T, N, H)
    positions = np.random.default_rng(0).integers(-5, 10**6, (B, T))
    turn = jax.jit(lambda x, p: rotary(x, p, base=base))
    np.testing.assert_allclose(turn(x, jnp.asarray(positions, jnp.int32)), complex64(x, positions, base), atol=2e-6)
    shared = turn(x, jnp.arange(T))
    np.testing.assert_allclose(shared, complex64(x, np.broadcast_to(np.arange(T), (B, T)), base), atol=2e-6)


def test_a_product_of_query_and_key_depends_on_their_distance_alone(normal):
    query, key = normal(1, 1, N, H), normal(1, 1, N, H)
    at = lambda x, p: np.asarray(rotary(x, jnp.array([p])), np.float64)
    product = lambda m, n: np.sum(at(query, m) * at(key, n), axis=-1)
    for shift in (1, 1009, 10**6 + 3, -17):
        np.testing.assert_allclose(product(7 + shift, 2 + shift), product(7, 2), atol=1e-5)
    assert np.abs(product(7, 3) - product(7, 2)).max() > 0.1
    np.testing.assert_allclose(np.linalg.norm(at(query, 41)), np.linalg.norm(query), rtol=1e-6)


def test_rotary_in_float64_is_right_to_float64(normal):
    with jax.enable_x64(True):
        x = normal(B, T, N, H).astype(jnp.float64)
        positions = np.broadcast_to(np.arange(T) * 9973, (B, T))
        np.testing.assert_allclose(rotary(x, jnp.asarray(positions[0])), complex64(x, positions), atol=1e-9)


def test_rotary_is_that_of_gpt_j_and_roformer(normal, torch):
    gptj = pytest.importorskip("transformers.models.gptj.modeling_gptj")
    roformer = pytest.importorskip("transformers.models.roformer.modeling_roformer")
    x = normal(B, T, N, H)
    source = torch.tensor(np.asarray(x))
    sin, cos = gptj.create_sinusoidal_positions(T, H)[None].expand(B, -1, -1).chunk(2, dim=-1)
    np.testing.assert_allclose(rotary(x, jnp.arange(T)), gptj.apply_rotary_pos_emb(source, sin, cos), atol=1e-6)
    table = torch.cat([sin, cos], dim=-1)[:1, None]
    heads_first = source.transpose(1, 2)
    turned, _ = roformer.RoFormerSelfAttention.apply_rotary_position_embeddings(table, heads_first, heads_first)
    np.testing.assert_allclose(rotary(x, jnp.arange(T)), turned.transpose(1, 2), atol=1e-6)


def test_halves_are_those_of_llama_and_the_rest_passes(normal, torch):
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    x, width = normal(B, T, N, H), 10
    angle = np.arange(T)[:, None] * 10000.0 ** (-np.arange(0, width, 2) / width)
    angle = torch.tensor(np.concatenate([angle, angle], axis=-1), dtype=torch.float32)[None]
    source = torch.tensor(np.asarray(x))[..., :width].transpose(1, 2)
    expected, _ = llama.apply_rotary_pos_emb(source, source, angle.cos(), angle.sin())
    got = rotary(x, jnp.arange(T), width=width, halves=True)
    np.testing.assert_allclose(got[..., :width], expected.transpose(1, 2), atol=1e-6)
    np.testing.assert_array_equal(got[..., width:], x[..., width:])
    # The two layouts are the same rotation under a permutation of the features.
    order = np.arange(width).reshape(2, -1).T.ravel()
    neighbours = rotary(x[..., :width][..., order], jnp.arange(T))
    np.testing.assert_allclose(neighbours, got[..., :width][..., order], atol=1e-6)


def test_an_odd_width_cannot_be_rotated(normal, unchecked):
    for width in (3, 0, 16):
        with pytest.raises(ValueError, match=f"width: expected an even number from 2 to axis H of x, 14, got {width}"):
            rotary(normal(B, T, N, H), jnp.arange(T), width=width)
    with pytest.raises(ValueError, match="positions: expected integers"):
        rotary(normal(B, T, N, H), jnp.arange(T, dtype=jnp.float32))
