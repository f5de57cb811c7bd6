"""Attention with one small step before or after the softmax, against float64 loops."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import dot_product_attention
from attention_research.kernels.variants import (
    index_scores,
    length_scaled_attention,
    moba_attention,
    position_scaled_attention,
    selective_attention,
    talking_heads_attention,
    tensor_product_heads,
    without_own_value,
)
from tests.kernels.conftest import attention64, softmax64
from tests.kernels.test_variants import HV, MASK, B, H, K, N, S, T, heads, wide


def test_length_scaled_logits_count_the_visible_keys(normal):
    query, key, value = heads(normal)
    factor = normal(N)
    seen = MASK & np.tri(T, S, 1, dtype=bool)
    scaled = np.zeros(query.shape)
    for b, i, n in np.ndindex(B, T, N):
        scaled[b, i, n] = np.float64(query[b, i, n]) * float(factor[n]) * np.log(max(seen[b, 0, i].sum(), 1))
    expected, _ = attention64(scaled, key, value, mask=seen)
    call = jax.jit(lambda *x: length_scaled_attention(*x, jnp.asarray(MASK), is_causal=True, query_offset=1))
    np.testing.assert_allclose(call(query, key, value, factor), expected, atol=2e-5)


def test_a_temperature_by_position_is_that_of_llama_4(normal):
    """The factor log1p(floor((position + 1) / floor_scale)) attn_scale + 1 of Llama4TextAttention."""
    query, key, value = heads(normal, T, T)
    factor = np.log1p(np.floor((np.arange(T) + 1.0) / 3)) * 0.5 + 1.0
    expected, _ = attention64(np.float64(query) * factor[:, None, None], key, value, is_causal=True)
    call = jax.jit(lambda *x: position_scaled_attention(*x, interval=3, strength=0.5, is_causal=True))
    np.testing.assert_allclose(call(query, key, value), expected, atol=2e-5)


def test_talking_heads_mix_logits_and_weights(normal):
    query, key, value = heads(normal)
    before, after = normal(N, N), normal(N, N)
    q, k, v, p, r = wide(query, key, value, before, after)
    expected = np.zeros((B, T, N, HV))
    for b, i in np.ndindex(B, T):
        logits = np.array([[q[b, i, n] @ k[b, j, n // (N // K)] / np.sqrt(H) for j in range(S)] for n in range(N)])
        mixed = np.array([sum(logits[n] * p[n, m] for n in range(N)) for m in range(N)])
        weights = softmax64(mixed, np.broadcast_to(MASK[b, 0, i], mixed.shape))
        for m in range(N):
            expected[b, i, m] = sum(weights[n] * r[n, m] for n in range(N)) @ v[b, :, m // (N // K)]
    call = jax.jit(lambda *x: talking_heads_attention(*x, jnp.asarray(MASK), block_size=4))
    np.testing.assert_allclose(call(query, key, value, before, after), expected, atol=2e-5)


@pytest.mark.slow
def test_heads_that_do_not_talk_are_plain_attention(normal):
    inputs = heads(normal)
    got = talking_heads_attention(*inputs, jnp.eye(N), jnp.eye(N), jnp.asarray(MASK))
    np.testing.assert_allclose(got, attention64(*inputs, mask=MASK)[0], atol=1e-5)


def test_without_own_value_only_the_orthogonal_part_is_left(normal):
    context, value = normal(B, T, N, HV), normal(B, T, K, HV).at[0, 3].set(0)
    y, v = wide(context, value)
    expected = np.zeros(y.shape)
    for b, i, n in np.ndindex(B, T, N):
        own = v[b, i, n // (N // K)]
        expected[b, i, n] = y[b, i, n] - (y[b, i, n] @ own) / max(own @ own, 1e-300) * own
    call = jax.jit(without_own_value)
    np.testing.assert_allclose(call(context, value), expected, atol=2e-6)
    for scale in (1e-25, 1e15):
        np.testing.assert_allclose(call(context, scale * value), expected, atol=2e-6)


@pytest.mark.slow
def test_without_its_own_value_the_first_position_is_0(normal):
    query, key, value = heads(normal, T, T)
    call = lambda *x: without_own_value(dot_product_attention(*x, is_causal=True), x[2])[:, 0]
    np.testing.assert_allclose(jax.jit(call)(query, key, value), 0, atol=1e-6)


def test_offsets_by_example_are_refused_where_they_are_not_supported(normal, unchecked):
    """`dot_product_attention` accepts them."""
    x, keys = normal(2, 1, 1, 4), normal(2, 8, 1, 4)
    for attend in (partial(moba_attention, block_size=2, top_k=1), selective_attention):
        with pytest.raises(ValueError, match="query_offset: expected 0 axes"):
            attend(x, keys, keys, query_offset=jnp.array([5, 2]))


def test_dtypes_that_differ_are_refused(normal):
    wide, narrow = normal(1, 3, 2, 4), normal(1, 3, 2, 5).astype(jnp.bfloat16)
    with pytest.raises(ValueError, match="features: expected the dtype float32 of the factors, got bfloat16"):
        tensor_product_heads(wide, narrow)
    with pytest.raises(ValueError, match="index_key: expected the query's dtype float32, got bfloat16"):
        index_scores(wide, normal(1, 3, 4).astype(jnp.bfloat16), normal(1, 3, 2))
