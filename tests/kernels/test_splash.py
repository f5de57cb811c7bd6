"""Splash attention, interpreted on the CPU: the equation, every gradient, the laws, and lowering for a TPU."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels.attention import reference, refusals, splash
from attention_research.kernels.attention.arguments import prepare
from tests.kernels.conftest import attention64
from tests.tiers import fast_are

#: Two blocks of 128 queries and one of keys, or the reverse. All are ragged.
B, T, S, N, K, H, HV = 2, 131, 11, 4, 2, 5, 7


def inputs(swapped: bool = False, dtype=jnp.float32) -> tuple[jax.Array, ...]:
    """query, key, value and a weight for the output."""
    random = np.random.default_rng(1)
    t, s = (S, T) if swapped else (T, S)
    shapes = ((B, t, N, H), (B, s, K, H), (B, s, K, HV), (B, t, N, HV))
    return tuple(jnp.asarray(random.standard_normal(shape), dtype) for shape in shapes)


@functools.cache
def compiled(attend, options):
    """(query, key and value, the other arrays, weight) -> ((loss, output), gradients)."""

    def loss(qkv, arrays, weight):
        output = attend(arrays._replace(query=qkv[0], key=qkv[1], value=qkv[2]), options)
        return jnp.vdot(output.astype(jnp.float32), weight.astype(jnp.float32)), output

    return jax.jit(jax.value_and_grad(loss, has_aux=True))


def value_and_gradients(attend, given, *settings, mask=None):
    """(output, gradients of sum(output * weight))."""
    *qkv, weight = given
    arrays, options = prepare(*qkv, None, None, *settings)
    arrays = arrays._replace(mask=mask)
    (_, output), gradients = compiled(attend, options)(tuple(qkv), arrays, weight)
    return output, gradients


SEGMENTS = (
    jnp.asarray(np.repeat([[1, 2, 0], [4, 1, 1]], [40, 61, 30], axis=1)),
    jnp.array([[1] * 3 + [2] * 6 + [0] * 2, [1] * 2 + [4] * 4 + [7] * 5]),
)
LENGTHS = jnp.array([131, 77]), jnp.array([0, 7])
#: After bias and mask: scale, is_causal, lengths of queries and keys, window, segments. The second entry: swapped.
CASES = {
    "plain": ((2, False, None, None, None), False),
    "causal": ((None, True, None, None, None), True),
    "window_lengths": ((None, False, *LENGTHS, (3, 4)), False),
    "causal_window_swapped_lengths": ((None, True, *LENGTHS[::-1], (5, 0)), True),
    "segments": ((None, False, None, None, None, *SEGMENTS), False),
}


@pytest.mark.parametrize(
    "settings, swapped", fast_are(["causal_window_swapped_lengths", "segments"], CASES, several=True)
)
def test_splash_is_the_equation_and_gradients_agree(settings, swapped):
    """Some rows are empty: beyond a window or a length, in a segment without keys, and in whole blocks."""
    given = inputs(swapped)
    output, gradients = value_and_gradients(splash.attend, given, *settings)
    _, wanted = value_and_gradients(reference.attend, given, *settings)
    scale, is_causal, queries, keys, window, *segments = settings
    mask = None
    if segments:
        mask = np.array(segments[0])[:, None, :, None] == np.array(segments[1])[:, None, None, :]
        mask &= (np.array(segments[1]) != 0)[:, None, None, :]
    expected, weights = attention64(
        *given[:3], None, mask, scale=scale, is_causal=is_causal, query_seq_lengths=queries,
        key_value_seq_lengths=keys, local_window_size=window,
    )  # fmt: skip
    np.testing.assert_allclose(output, expected, atol=2e-6, rtol=2e-5)
    empty = ~weights.any(axis=-1).swapaxes(1, 2)
    assert not np.any(np.asarray(output)[empty]) and np.any(empty) == (mask is not None or queries is not None)
    for got, want in zip(gradients, wanted, strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got, want, atol=2e-5, rtol=2e-4)
    assert not np.any(np.asarray(gradients[0])[empty])


@pytest.mark.slow
def test_a_mask_of_keys_equals_the_full_mask():
    """One element has all keys hidden. Causality and lengths are applied as well."""
    given, mask = inputs(), jnp.asarray(np.random.default_rng(5).random((B, 1, 1, S)) < 0.5).at[1].set(False)
    settings = (None, True, None, jnp.array([S, 7]), None)
    output, gradients = value_and_gradients(splash.attend, given, *settings, mask=mask)
    expected, wanted = value_and_gradients(reference.attend, given, *settings, mask=mask)
    assert not np.any(output[1]) and np.any(output[0])
    np.testing.assert_allclose(output, expected, atol=2e-6, rtol=2e-5)
    for got, want in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(got, want, atol=2e-5, rtol=2e-4)


@pytest.mark.slow
def test_causal_attention_has_exactly_no_gradient_from_the_future_and_padding_does_not_matter():
    query, key, value, weight = inputs(swapped=True)
    row = 6
    only = jnp.zeros_like(weight).at[:, row].set(weight[:, row])
    settings = (None, True, None, jnp.array([9, 5]), None)
    output, gradients = value_and_gradients(splash.attend, (query, key, value, only), *settings)
    for gradient in gradients[1:]:
        assert not np.any(gradient[:, row + 1 :]) and not np.any(gradient[1, 5:])
        assert np.all(np.any(np.asarray(gradient[0, : row + 1]) != 0, axis=(1, 2)))
    spoiled = tuple(x.at[0, 9:].set(1e4).at[1, 5:].set(-1e4) for x in (key, value))
    again, others = value_and_gradients(splash.attend, (query, *spoiled, only), *settings)
    np.testing.assert_array_equal(again, output)
    np.testing.assert_array_equal(others[0], gradients[0])


@pytest.mark.slow
def test_bfloat16_is_near_the_bfloat16_reference():
    settings, low = (None, True, None, None, None), inputs(True, jnp.bfloat16)
    exact = value_and_gradients(reference.attend, inputs(True), *settings)
    fast, plain = (value_and_gradients(attend, low, *settings) for attend in (splash.attend, reference.attend))
    assert fast[0].dtype == jnp.bfloat16
    error = lambda x, y: np.abs(np.asarray(x, np.float32) - np.asarray(y, np.float32)).max()
    assert error(fast[0], exact[0]) <= 2 * error(plain[0], exact[0])
    for got, want, truth in zip(fast[1], plain[1], exact[1], strict=True):
        assert got.dtype == want.dtype and error(got, truth) <= 3 * error(want, truth) + 1e-5


def test_forward_and_gradients_lower_to_mosaic():
    def loss(query, key, value, lengths):
        arrays, options = prepare(query, key, value, None, None, None, True, None, lengths, (300, 0))
        return jnp.sum(splash.attend(arrays, options, platform="tpu").astype(jnp.float32))

    shapes = [(2, 521, 4, 64), (2, 509, 2, 64), (2, 509, 2, 64)]
    given = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in shapes]
    given.append(jax.ShapeDtypeStruct((2,), jnp.int32))
    lowered = jax.jit(jax.grad(loss, (0, 1, 2))).trace(*given).lower(lowering_platforms=("tpu",))
    assert lowered.as_text().count("@tpu_custom_call") == 3


def test_unsupported_arguments_are_refused():
    query, key, value, _ = inputs()

    def refused(bias=None, mask=None, distance=None, dtype=jnp.float32):
        floats = (x.astype(dtype) for x in (query, key, value))
        return refusals.splash(*prepare(*floats, bias, mask, None, False, *[None] * 5, distance), "cpu")

    assert refused() is None
    assert refused(bias=jnp.zeros((1, 1, T, S))).startswith("bias:")
    assert refused(mask=jnp.ones((B, 1, T, S), bool)) == (
        "mask: expected a key mask [B 1 1 S] (Splash attention), got [2, 1, 131, 11]"
    )
    assert refused(mask=jnp.ones((B, 1, 1, S), bool)) is None
    assert refused(distance=jnp.zeros((N, T + S - 1))).startswith("distance_bias:")
    assert refused(dtype=jnp.float16).startswith("dtype of query: expected bfloat16 or float32, got float16")
    with pytest.raises(ValueError, match="implementation='splash': Splash attention needs a TPU"):
        splash.attend(*prepare(query, key, value, *[None] * 3, False, *[None] * 3), platform="cuda")
