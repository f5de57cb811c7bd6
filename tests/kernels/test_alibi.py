"""ALiBi: the slopes and the bias of the released code, and decoding with a cache."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import alibi_bias, dot_product_attention
from attention_research.kernels.positions import alibi_distance_bias, alibi_slopes
from tests.tiers import fast_are

B, N, H = 2, 3, 5
LENGTHS = {"longer_keys": (5, 11), "longer_queries": (11, 5), "one_query": (1, 7), "one_key": (7, 1)}


def released_slopes(n):
    """The authors' get_slopes: a geometric series for powers of two, else extended by every other slope of twice it."""
    if math.log2(n).is_integer():
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]
    below = 2 ** math.floor(math.log2(n))
    return released_slopes(below) + released_slopes(2 * below)[0::2][: n - below]


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 7, 8, 12, 16, 20, 25, 31])
def test_slopes_are_the_released_codes(heads):
    np.testing.assert_allclose(alibi_slopes(heads), released_slopes(heads), rtol=1e-6)


def test_slopes_of_the_paper():
    np.testing.assert_array_equal(alibi_slopes(8), [2.0**-n for n in range(1, 9)])
    with pytest.raises(ValueError, match="num_heads: expected at least 1, got 0"):
        alibi_slopes(0)


@pytest.mark.slow
@pytest.mark.parametrize("heads", [4, 5])
def test_the_bias_is_the_released_codes(heads, torch):
    """Bloom's tensor is m_n j, which differs only by a constant for each query. The paper's figure has -m_n (i - j)."""
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    length = 11
    tensor = bloom.build_alibi_tensor(torch.ones(1, length), heads, torch.float32).numpy()
    bias = np.asarray(alibi_bias(heads, length, length)[0])
    np.testing.assert_allclose(bias - bias[:, :, :1], np.broadcast_to(tensor, bias.shape), atol=1e-5)
    for n, i, j in np.ndindex(*bias.shape):
        assert bias[n, i, j] == np.float32(-released_slopes(heads)[n] * (i - j))


@pytest.mark.parametrize("bidirectional", [False, True], ids=["causal", "bidirectional"])
@pytest.mark.parametrize("T, S", fast_are(["longer_keys"], LENGTHS, several=True))
def test_the_bias_by_distance_is_every_pairs(T, S, bidirectional):
    for offset in (0, 9):
        dense = alibi_bias(N, T, S, query_offset=offset, bidirectional=bidirectional)
        row = alibi_distance_bias(N, T, S, query_offset=jnp.int32(offset), bidirectional=bidirectional)
        assert dense.shape == (1, N, T, S) and row.shape == (N, T + S - 1)
        dense, row = np.asarray(dense), np.asarray(row)
        for n, i, j in np.ndindex(N, T, S):
            distance = j - i - offset
            expected = released_slopes(N)[n] * (-abs(distance) if bidirectional else distance)
            np.testing.assert_allclose([dense[0, n, i, j], row[n, j - i + T - 1]], expected, rtol=1e-6)


@pytest.mark.slow
def test_a_cached_step_is_the_last_row_of_causal_attention(normal):
    T = 13
    query, key, value = normal(B, T, N, H), normal(B, T, N, H), normal(B, T, N, H)
    whole = dot_product_attention(query, key, value, alibi_bias(N, T, T), is_causal=True)

    @jax.jit
    def step(position):
        bias = alibi_bias(N, 1, T, query_offset=position)
        one = jax.lax.dynamic_slice_in_dim(query, position, 1, axis=1)
        return dot_product_attention(one, key, value, bias, key_value_seq_lengths=jnp.full(B, position + 1))

    for position in (0, 5, 12):
        np.testing.assert_allclose(step(jnp.int32(position))[:, 0], whole[:, position], atol=2e-6)
