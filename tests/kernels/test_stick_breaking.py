"""Stick-breaking attention against float64 loops over the sticks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels.variants import stick_breaking_attention
from tests.kernels.test_variants import HV, MASK, B, H, K, N, T, heads, wide

LONG = T + 2


def sticks64(query, key, value, mask, attend_current, offset):
    """Each query goes back from the nearest key, and each visible key takes sigmoid(q k / sqrt(H)) of what is left."""
    query, key, value = wide(query, key, value)
    out = np.zeros((B, query.shape[1], N, HV))
    for b, i, n in np.ndindex(B, query.shape[1], N):
        left = 1.0
        for j in range(i + offset if attend_current else i + offset - 1, -1, -1):
            if j < key.shape[1] and np.broadcast_to(mask, (B, 1, query.shape[1], key.shape[1]))[b, 0, i, j]:
                share = 1 / (1 + np.exp(-query[b, i, n] @ key[b, j, n // (N // K)] / np.sqrt(H)))
                out[b, i, n] += left * share * value[b, j, n // (N // K)]
                left *= 1 - share
    return out


@pytest.mark.parametrize("attend_current, offset", [(False, 0), (True, 2)], ids=["before", "current"])
def test_the_weights_are_shares_of_what_is_left(attend_current, offset, normal):
    inputs = heads(normal)
    call = jax.jit(
        lambda *x: [
            stick_breaking_attention(
                *x, jnp.asarray(MASK), attend_current=attend_current, query_offset=offset, block_size=block
            )
            for block in (512, 4)
        ]
    )
    expected = sticks64(*inputs, MASK, attend_current, offset)
    for got in call(*inputs):
        np.testing.assert_allclose(got, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.slow
def test_a_long_row_of_small_gates_keeps_its_products(normal):
    """2,000 keys with beta = 0.001: the first key has (1 - 0.001)^1998 of it left."""
    length = 2000
    logit = float(np.log(0.001 / 0.999))
    query, key = jnp.full((1, 1, 1, 1), logit), jnp.ones((1, length, 1, 1))
    value = jnp.eye(length)[None, :, None]
    got = jax.jit(lambda *x: stick_breaking_attention(*x, query_offset=length - 1))(query, key, value)[0, 0, 0]
    np.testing.assert_allclose(got[:-1], 0.001 * 0.999 ** np.arange(length - 2, -1, -1), rtol=2e-4)
    assert got[-1] == 0
