"""Block-local attention in both layouts, against dense attention with the explicit pattern."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import block_local_attention, dot_product_attention
from attention_research.kernels.efficient import block_local_cache, block_local_step
from tests.kernels.conftest import attention64

B, T, N, K, H, HV = 2, 13, 6, 3, 5, 7
MASK = jnp.asarray(np.random.default_rng(1).random((B, T)) < 0.6).at[1, 4:8].set(False)


def arrays(normal):
    return normal(B, T, N, H), normal(B, T, K, H), normal(B, T, K, HV)


def local64(query, key, value, *, block_size, mask, is_causal, strided):
    pattern, mask = np.zeros((B, 1, T, T), bool), np.asarray(mask)
    for b, i, j in np.ndindex(B, T, T):
        same = i % (T // block_size + 1) == j % (T // block_size + 1) if strided else i // block_size == j // block_size
        pattern[b, 0, i, j] = same and bool(mask[b, j]) and (j <= i or not is_causal)
    return attention64(query, key, value, mask=pattern)[0]


@pytest.mark.parametrize(
    "block_size, strided, is_causal",
    [(4, False, False), (4, False, True), (4, True, False), (4, True, True), (1, False, True), (T, True, False),
     (29, False, True)],
)  # fmt: skip
def test_block_local_is_dense_attention_with_the_pattern(block_size, strided, is_causal, normal):
    inputs, settings = arrays(normal), dict(block_size=block_size, mask=MASK, is_causal=is_causal, strided=strided)
    got = jax.jit(lambda *x: block_local_attention(*x, **settings))(*inputs)
    np.testing.assert_allclose(got, local64(*inputs, **settings), atol=5e-6, rtol=5e-5)


def test_one_block_is_all_of_attention(normal):
    inputs = arrays(normal)
    np.testing.assert_allclose(
        jax.jit(partial(block_local_attention, block_size=T))(*inputs),
        jax.jit(dot_product_attention)(*inputs),
        atol=1e-6,
    )


def test_blocks_stay_separate_in_any_number_of_layers(normal):
    x = normal(1, 11, 1, H)

    def network(x):
        for _ in range(3):
            x = x + block_local_attention(x, x, x, block_size=4)
        return x[0, 5].sum()

    seen = np.flatnonzero(np.any(np.asarray(jax.jit(jax.grad(network))(x)), axis=(0, 2, 3)))
    np.testing.assert_array_equal(seen, [4, 5, 6, 7])


def test_a_step_at_a_time_is_the_whole_sequence(normal):
    query, key, value = arrays(normal)
    cache, outputs = block_local_cache(key[:, 0], value[:, 0], block_size=4), []
    step = jax.jit(block_local_step)
    for i in range(T):
        cache, output = step(cache, query[:, i], key[:, i], value[:, i])
        outputs.append(output)
    assert cache.key.shape == (B, 4, K, H)
    whole = local64(query, key, value, block_size=4, mask=np.ones((B, T)), is_causal=True, strided=False)
    np.testing.assert_allclose(jnp.stack(outputs, 1), whole, atol=5e-6, rtol=5e-5)


def test_errors_name_the_argument(normal, unchecked):
    query, key, value = arrays(normal)
    with pytest.raises(ValueError, match="block_size: expected at least 1, got 0"):
        block_local_attention(query, key, value, block_size=0)
    with pytest.raises(ValueError, match=r"mask: axis T of \[B T\]: expected 13 as in query, got 12"):
        block_local_attention(query, key, value, block_size=4, mask=MASK[:, 1:])
    with pytest.raises(ValueError, match="key: axis K .* expected a divisor of the query's 6 heads, got 4"):
        block_local_attention(query, normal(B, T, 4, H), normal(B, T, 4, HV), block_size=4)
