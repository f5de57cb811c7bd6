"""Scaled rotary frequencies and xPos against the papers' equations and Hugging Face Transformers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import rotary
from attention_research.kernels.positions import (
    dynamic_ntk_frequencies,
    interpolated_frequencies,
    llama3_frequencies,
    longrope_frequencies,
    longrope_magnitude,
    ntk_frequencies,
    xpos,
    yarn_frequencies,
    yarn_magnitude,
)
from attention_research.kernels.positions.angles import frequencies
from tests.kernels.test_rotary import complex64

B, T, N, H = 2, 11, 3, 14


def test_frequencies_of_the_example():
    np.testing.assert_allclose(interpolated_frequencies(8, factor=4), [0.25, 0.025, 0.0025, 0.00025])
    np.testing.assert_allclose(ntk_frequencies(8, factor=4), [1, 0.062996, 0.003969, 0.00025], atol=5e-7)
    np.testing.assert_allclose(yarn_frequencies(8, factor=4, original_length=32), [1, 0.025, 0.0025, 0.00025])
    assert round(yarn_magnitude(4), 6) == 1.138629


@pytest.mark.parametrize("length", [1, 4, 6])
def test_yarn_interpolates_all_pairs_if_none_turns_once(length):
    assert length * 1.0 < 2 * np.pi  # the angle of the first pair, which turns most
    found = yarn_frequencies(64, factor=4, original_length=length)
    np.testing.assert_allclose(found, interpolated_frequencies(64, factor=4), rtol=1e-12)


def test_dynamic_frequencies_are_plain_up_to_the_original_length():
    at = lambda n: dynamic_ntk_frequencies(8, factor=2, length=n, original_length=32)
    np.testing.assert_array_equal(at(7), at(32))
    np.testing.assert_allclose(at(64), ntk_frequencies(8, factor=2 * 64 / 32 - 1))


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn", "longrope", "llama3"])
@pytest.mark.slow
def test_frequencies_are_those_of_transformers(kind, torch):
    rope = pytest.importorskip("transformers.modeling_rope_utils")
    llama = pytest.importorskip("transformers.models.llama.configuration_llama")
    factors = list(np.linspace(1, 5, 32))
    parameters = {"rope_type": kind, "factor": 6.0, "rope_theta": 5000.0, "original_max_position_embeddings": 96}
    more = {"longrope": {"short_factor": factors, "long_factor": factors},
            "llama3": {"low_freq_factor": 1.0, "high_freq_factor": 4.0}}  # fmt: skip
    config = llama.LlamaConfig(
        hidden_size=128, num_attention_heads=2, max_position_embeddings=96 if kind == "dynamic" else 576,
        rope_parameters={**parameters, **more.get(kind, {})},
    )  # fmt: skip
    ours = {
        "linear": lambda: (interpolated_frequencies(64, factor=6, base=5000.0), 1.0),
        "dynamic": lambda: (
            dynamic_ntk_frequencies(64, factor=6, length=300, original_length=96, base=5000.0), 1.0,
        ),
        "yarn": lambda: (yarn_frequencies(64, factor=6, original_length=96, base=5000.0), yarn_magnitude(6)),
        "longrope": lambda: (longrope_frequencies(64, factors, base=5000.0), longrope_magnitude(6, 96)),
        "llama3": lambda: (llama3_frequencies(64, factor=6, original_length=96, base=5000.0), 1.0),
    }  # fmt: skip
    frequency, magnitude = rope.ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=300)
    found, scale = ours[kind]()
    np.testing.assert_allclose(found, frequency.numpy(), rtol=2e-5)
    np.testing.assert_allclose(scale, magnitude, rtol=1e-6)


def test_rotary_takes_frequencies_and_a_magnitude(normal):
    x, positions = normal(B, T, N, H), jnp.arange(T)
    frequency = interpolated_frequencies(H, factor=2)
    call = jax.jit(lambda x: rotary(x, 2 * positions, frequency=frequency, magnitude=1.5))
    np.testing.assert_allclose(call(x), 1.5 * complex64(x, [np.arange(T)] * B), atol=3e-6)


def test_mistakes_are_named(normal, unchecked):
    with pytest.raises(ValueError, match="frequency: expected 7 numbers, half of the width, got"):
        rotary(normal(B, T, N, H), jnp.arange(T), frequency=np.ones(3))
    with pytest.raises(ValueError, match="factors: expected 7 numbers, half of the width, got 3"):
        longrope_frequencies(H, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"factor: expected at least 1, got 0\.5"):
        yarn_frequencies(H, factor=0.5, original_length=32)
    with pytest.raises(ValueError, match="original_length: expected at least 2, got 1"):
        longrope_magnitude(2.0, 1)


@pytest.mark.parametrize("offset", [0, 9])
def test_xpos_is_a_rotation_with_decay(offset, normal):
    query, key = normal(B, T, N, H), normal(B, T + 4, N, H)
    rotated, keys = jax.jit(lambda q, k, at: xpos(q, k, scale_base=7.0, query_offset=at))(query, key, jnp.int32(offset))
    logits = np.einsum("btnh,bsnh->bnts", *(np.asarray(x, np.float64) for x in (rotated, keys)))
    for b, n, i, j in np.ndindex(logits.shape):
        z = np.float64(query[b, i, n]).view(complex), np.float64(key[b, j, n]).view(complex)
        p, distance = np.arange(H // 2), i + offset - j
        zeta = (2 * p + 0.4 * H) / (1.4 * H)
        turned = z[0] * z[1].conj() * np.exp(1j * distance * 10000.0 ** (-2 * p / H)) * zeta ** (distance / 7.0)
        np.testing.assert_allclose(logits[b, n, i, j], turned.sum().real, rtol=2e-4, atol=2e-4)


def test_powers_of_xpos_that_would_overflow_are_refused():
    fits = jax.eval_shape(xpos, *[jax.ShapeDtypeStruct((1, 61_000, 1, 2), jnp.float32)] * 2)
    assert fits[0].shape == (1, 61_000, 1, 2)
    ones = jnp.ones((1, 900, 1, 2))
    logits = jnp.einsum("BTNH,BSNH->BTS", *xpos(ones, ones, scale_base=8.0))  # near the limit
    assert jnp.isfinite(jnp.where(jnp.tri(900, dtype=bool), logits, 0)).all()
    with pytest.raises(ValueError, match="query: axis T: with scale_base 8 the powers allow 956 positions, got 1000"):
        xpos(*[jnp.ones((1, 1000, 1, 2))] * 2, scale_base=8.0)


def test_dynamic_frequencies_at_the_original_length_survive_rounding():
    """1.8 * 77 / 77 - 0.8 is a little less than 1."""
    grown = dynamic_ntk_frequencies(8, factor=1.8, length=77, original_length=77)
    np.testing.assert_array_equal(grown, frequencies(8, 10_000.0))


def test_keys_after_the_last_query_have_finite_powers():
    one = jnp.ones((1, 1, 1, 2))
    query, key = xpos(one, jnp.ones((1, 40_000, 1, 2)))
    assert np.isfinite(np.asarray(query)).all() and np.isfinite(np.asarray(key)).all()


def test_powers_that_float16_cannot_hold_are_refused():
    half = jnp.ones((1, 12_000, 1, 2), jnp.float16)
    with pytest.raises(ValueError, match="query: axis T: with scale_base 512 the powers allow"):
        xpos(half, half)
    short = jnp.ones((1, 500, 1, 2), jnp.float16)
    assert all(np.isfinite(np.asarray(x)).all() for x in xpos(short, short))
