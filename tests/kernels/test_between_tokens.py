"""PaTH, multi-token and tensor product attention against float64 loops, with packed examples.

By hand, PaTH also against jla.ops.path_attention of jax-linear-attention 0.1.0.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import dot_product_attention
from attention_research.kernels.variants import (
    multi_token_attention,
    path_attention,
    tensor_product_attention,
)
from tests.kernels.conftest import attention64, softmax64
from tests.kernels.test_logit_terms import PACKED, SEEN, SEGMENTS, forgotten64, logits64
from tests.kernels.test_variants import HV, B, H, K, N, T, heads, wide

MASK = jnp.asarray(PACKED)[:, None]


def reflections(normal):
    direction = normal(B, T, K, H)
    return direction / jnp.linalg.norm(direction, axis=-1, keepdims=True), 2 * jax.nn.sigmoid(normal(B, T, K))


def applied(weights, value):
    out, value = np.zeros((B, T, N, HV)), np.float64(value)
    for b, n in np.ndindex(B, N):
        out[b, :, n] = weights[b, n] @ value[b, :, n // (N // K)]
    return out


@pytest.mark.parametrize("chunk_size", [3, 64])
def test_path_attention_is_the_product_of_reflections(chunk_size, normal):
    query, key, value = heads(normal, T, T)
    direction, beta = reflections(normal)
    log_forget = jax.nn.log_sigmoid(normal(B, T, N))
    q, k, w, scale = wide(query, key, direction, beta)
    logits = np.full((B, N, T, T), -np.inf)
    for b, n, j in np.ndindex(B, N, T):
        g, moved = n // (N // K), k[b, j, n // (N // K)]
        for i in range(j, T):
            if i > j:
                moved = moved - scale[b, i, g] * (moved @ w[b, i, g]) * w[b, i, g]
            logits[b, n, i, j] = q[b, i, n] @ moved / np.sqrt(H)
    weights = softmax64(np.where(SEEN, logits + forgotten64(log_forget), 0), np.broadcast_to(SEEN, logits.shape))
    call = jax.jit(lambda *x: path_attention(*x, MASK, chunk_size=chunk_size))
    got = call(query, key, value, direction, beta, log_forget)
    np.testing.assert_allclose(got, applied(weights, value), atol=2e-5)


def convolved64(pairs, kernel):
    """Both pairs must be visible and in one example; kernels [N Q C] of present and earlier queries."""
    out = np.zeros(pairs.shape)
    for b, n, i, j in np.ndindex(pairs.shape):
        if SEEN[b, 0, i, j]:
            for x, y in np.ndindex(kernel.shape[1:]):
                before, beside = i - x, j - y + kernel.shape[2] // 2
                inside = before >= 0 and 0 <= beside < T and SEGMENTS[b, before] == SEGMENTS[b, i]
                if inside and SEEN[b, 0, before, beside]:
                    out[b, n, i, j] += kernel[n, x, y] * pairs[b, n, before, beside]
    return out


def mixed64(pairs, groups):
    out, size = np.zeros(pairs.shape), groups.shape[1]
    for n, m in np.ndindex(N, size):
        out[:, n] += pairs[:, n // size * size + m] * groups[n // size, m, n % size]
    return out


def test_multi_token_attention_is_the_loop_over_taps(normal):
    query, key, value = heads(normal, T, T)
    kernels, groups = (normal(N, 3, 2), normal(N, 2, 3)), (normal(2, 3, 3), normal(3, 2, 2))
    (before, after), (logit_groups, weight_groups) = wide(*kernels), wide(*groups)
    logits = mixed64(convolved64(logits64(query, key), before), logit_groups)
    weights = softmax64(logits, np.broadcast_to(SEEN, logits.shape))
    weights = convolved64(mixed64(weights, weight_groups), after)
    call = jax.jit(lambda *x: multi_token_attention(*x, MASK))
    np.testing.assert_allclose(call(query, key, value, *kernels, *groups), applied(weights, value), atol=5e-5)


@pytest.mark.slow
def test_special_cases_are_plain_attention(normal):
    """Reflections with beta = 0, and kernels of one tap."""
    query, key, value = heads(normal, T, T)
    plain = dot_product_attention(query, key, value, mask=MASK, is_causal=True)
    direction, beta = reflections(normal)
    got = path_attention(query, key, value, direction, 0 * beta, mask=MASK, chunk_size=4)
    np.testing.assert_allclose(got, plain, atol=1e-6)
    one = jnp.zeros((N, 2, 4)).at[:, 0, 2].set(1)
    np.testing.assert_allclose(multi_token_attention(query, key, value, one, one, mask=MASK), plain, atol=1e-6)


def test_tensor_products_are_sums_over_ranks(normal):
    ranks = {"q": (4, H), "k": (3, H), "v": (2, HV)}
    pairs = {name: (normal(B, T, R, N), normal(B, T, R, width)) for name, (R, width) in ranks.items()}
    made = {}
    for name, (R, width) in ranks.items():
        a, c = wide(*pairs[name])
        made[name] = np.zeros((B, T, N, width))
        for r, n in np.ndindex(R, N):
            made[name][:, :, n] += a[:, :, r, n, None] * c[:, :, r] / R
    expected, _ = attention64(*made.values(), mask=SEEN)
    call = jax.jit(lambda *x: tensor_product_attention(*x, MASK, is_causal=True))
    np.testing.assert_allclose(call(*(x for pair in pairs.values() for x in pair)), expected, atol=2e-5)
