"""Terms that mechanisms add to the logits of causal attention against float64 loops, with padding and packed rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import alibi_bias, dot_product_attention
from attention_research.kernels.positions import (
    alibi_slopes,
    clipped_bias,
    clipped_distance_bias,
    contextual_attention,
    fire_bias,
    kerple_bias,
    kerple_distance_bias,
)
from attention_research.kernels.positions.relative import relative_logits
from attention_research.kernels.variants import forget_bias, forgetting_attention, selective_attention
from tests.kernels.conftest import attention64
from tests.kernels.test_variants import B, H, K, N, T, heads, wide

#: Two packed examples and a position of padding; one example with padding on the left.
SEGMENTS = np.array([[1] * 4 + [2] * 6 + [0], [0] * 3 + [1] * 8])
PACKED = (SEGMENTS[:, :, None] == SEGMENTS[:, None]) & (SEGMENTS != 0)[:, None]
SEEN = (PACKED & np.tri(T, dtype=bool))[:, None]


def logits64(query, key):
    query, key = wide(query, key)
    logits = np.zeros((B, N, T, T))
    for b, n, i, j in np.ndindex(logits.shape):
        logits[b, n, i, j] = query[b, i, n] @ key[b, j, n // (N // K)] / np.sqrt(H)
    return logits


def forgotten64(log_forget):
    bias = np.zeros((B, N, T, T))
    for b, n, i, j in np.ndindex(bias.shape):
        bias[b, n, i, j] = np.float64(log_forget)[b, j + 1 : i + 1, n].sum()
    return bias


def selected64(query, key):
    logits, bias = logits64(query, key), np.zeros((B, N, T, T))
    for b, i, j in np.ndindex(B, T, T):
        for m in range(i):
            if SEEN[b, 0, m, j] and j != m and SEEN[b, 0, m, :j].any():  # neither itself nor the first of its example
                bias[b, :, i, j] -= max(logits[b, 0, m, j], 0)
    return bias


def contextual64(query, key, positions):
    logits, bias, (query, table) = logits64(query, key), np.zeros((B, N, T, T)), wide(query, positions)
    for b, n, i, j in np.ndindex(bias.shape):
        place = sum(1 / (1 + np.exp(-logits[b, n, i, m])) for m in range(j, T) if SEEN[b, 0, i, m])
        place = min(place, len(table) - 1)
        low, high = int(np.floor(place)), int(np.ceil(place))
        at = query[b, i, n] @ table.T
        bias[b, n, i, j] = at[high] * (place - low) + at[low] * (1 - (place - low))
    return bias


def fire64(slope, threshold, kernel, offset, output):
    bias = np.zeros((B, N, T, T))
    for b, i, j in np.ndindex(B, T, T):
        if SEEN[b, 0, i, j]:
            start = int(np.argmax(SEEN[b, 0, i]))
            largest = np.log(abs(slope) * max(i - start, abs(threshold)) + 1)
            ratio = np.log(abs(slope) * (i - j) + 1) / largest
            bias[b, :, i, j] = np.maximum(ratio * np.float64(kernel) + offset, 0) @ np.float64(output)
    return bias


def fire(query, key, value, mask, *network):
    bias = fire_bias(jnp.float32(-0.3), jnp.float32(2.5), *network, T, T, mask)
    return dot_product_attention(query, key, value, bias, mask, is_causal=True)


#: name -> (attention of (heads, mask, parameters), bias of (query, key, parameters), parameters of a random source)
TERMS = {
    "forgetting": (
        lambda q, k, v, m, f: forgetting_attention(q, k, v, f, m),
        lambda q, k, f: forgotten64(f),
        lambda normal: (jax.nn.log_sigmoid(normal(B, T, N)),),
    ),
    "selective": (lambda q, k, v, m: selective_attention(q, k, v, m), selected64, lambda normal: ()),
    "contextual": (
        lambda q, k, v, m, p: contextual_attention(q, k, v, p, m, is_causal=True),
        contextual64,
        lambda normal: (normal(4, H),),
    ),
    "fire": (
        fire,
        lambda q, k, *network: fire64(-0.3, 2.5, *network),
        lambda normal: (normal(7), normal(7), normal(7, N)),
    ),
}


@pytest.mark.parametrize("name", TERMS)
def test_a_term_is_that_of_the_loops_also_in_packed_rows(name, normal):
    attention, term, draw = TERMS[name]
    query, key, value = heads(normal, T, T)
    parameters = draw(normal)
    expected, _ = attention64(query, key, value, bias=term(query, key, *parameters), mask=SEEN)
    got = jax.jit(attention)(2 * query / 2, key, value, jnp.asarray(PACKED)[:, None], *parameters)
    np.testing.assert_allclose(got, expected, atol=2e-5)


@pytest.mark.parametrize("form", ["log", "power"])
def test_kerple_is_its_kernel_of_every_pair(form, normal):
    r1, r2, S = np.abs(normal(N)) + 0.1, np.abs(normal(N)) + 0.1, T + 2
    call = jax.jit(lambda r1, r2, at: (kerple_bias(r1, r2, T, S, form=form, query_offset=at),
                                       kerple_distance_bias(r1, r2, T, S, form=form, query_offset=at)))  # fmt: skip
    for offset in (0, 5):
        pairs, row = map(np.asarray, call(jnp.asarray(r1), jnp.asarray(r2), jnp.int32(offset)))
        for n, i, j in np.ndindex(N, T, S):
            distance = abs(i + offset - j)
            a, c = np.float64(r1[n]), np.float64(r2[n])
            expected = -a * (np.log(1 + c * distance) if form == "log" else distance**c)
            np.testing.assert_allclose([pairs[0, n, i, j], row[n, j - i + T - 1]], expected, rtol=2e-5)


def test_clipped_distances_index_the_table(normal):
    """The biases, and Shaw's vectors for keys as a term of the logits."""
    k, S = 3, T + 2
    given = normal(2 * k + 1, N), normal(2 * k + 1, H), normal(B, T, N, H)
    table, vectors, query = map(np.asarray, given)
    call = jax.jit(lambda table, vectors, query, at: (clipped_bias(table, T, S, query_offset=at),
                                                      clipped_distance_bias(table, T, S, query_offset=at),
                                                      relative_logits(query, vectors, S, query_offset=at)))  # fmt: skip
    for offset in (0, 5):
        pairs, row, logits = map(np.asarray, call(*given, jnp.int32(offset)))
        for n, i, j in np.ndindex(N, T, S):
            at = max(-k, min(k, j - i - offset)) + k
            np.testing.assert_array_equal([pairs[0, n, i, j], row[n, j - i + T - 1]], table[at, n])
            expected = query[:, i, n].astype(np.float64) @ vectors[at] / np.sqrt(H)
            np.testing.assert_allclose(logits[:, n, i, j], expected, atol=2e-6)


def test_special_cases_are_alibi_and_plain_attention(normal):
    """Constant gates and the power 1 are ALiBi. Gates of 1 add nothing."""
    slopes = alibi_slopes(N)

    @jax.jit
    def every():
        gates = jnp.broadcast_to(-slopes, (1, T, N))
        return forget_bias(gates, T), kerple_bias(slopes, jnp.ones(N), T, T, form="power"), alibi_bias(N, T, T)

    forget, power, alibi = (np.asarray(x) * np.tri(T) for x in every())
    np.testing.assert_allclose(forget, alibi, atol=3e-6)
    np.testing.assert_allclose(power, alibi, atol=3e-6)
    assert not np.any(forget_bias(jnp.zeros((B, T, N)), T))


@pytest.mark.slow
def test_a_power_and_its_gradient_are_finite_at_distance_0():
    gradient = jax.grad(lambda r2: kerple_bias(jnp.ones(1), r2, 3, 3, form="power").sum())(jnp.array([0.3]))
    assert np.isfinite(gradient).all()
