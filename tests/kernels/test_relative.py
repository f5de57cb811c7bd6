"""Shaw's relative attention and T5's relative bias against the papers' double loops."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from attention_research.kernels import relative_attention, t5_relative_bias
from attention_research.kernels.attention import layout
from attention_research.kernels.positions import relative_weights, t5_buckets, t5_distance_bias
from tests.kernels.conftest import softmax64
from tests.tiers import fast_are

B, N, K, H, HV = 2, 6, 3, 5, 7
LENGTHS = {"longer_keys": (5, 11), "longer_queries": (11, 5), "one_query": (1, 7), "one_key": (7, 1)}


def shaw64(query, key, value, key_table, value_table, mask, offset=0):
    """Shaw et al. 2018, equations 3 and 4, pair by pair in float64: (context, weights)."""
    query, key, value, key_table = (np.asarray(x, np.float64) for x in (query, key, value, key_table))
    (B, T, N, H), (S, K, Hv) = query.shape, value.shape[1:]
    k, v = len(key_table) // 2, 0 if value_table is None else len(value_table) // 2
    logits = np.zeros((B, N, T, S))
    for b, n, i, j in np.ndindex(*logits.shape):
        row = np.clip(j - i - offset, -k, k) + k
        logits[b, n, i, j] = query[b, i, n] @ (key[b, j, n // (N // K)] + key_table[row]) / np.sqrt(H)
    weights = softmax64(logits, np.broadcast_to(True if mask is None else np.asarray(mask), logits.shape))
    context = np.zeros((B, T, N, Hv))
    for b, n, i, j in np.ndindex(*logits.shape):
        added = 0 if value_table is None else np.asarray(value_table, np.float64)[np.clip(j - i - offset, -v, v) + v]
        context[b, i, n] += weights[b, n, i, j] * (value[b, j, n // (N // K)] + added)
    return context, weights


def arrays(normal, T: int, S: int, k: int = 2):
    shapes = ((B, T, N, H), (B, S, K, H), (B, S, K, HV), (2 * k + 1, H), (2 * k + 1, HV))
    return tuple(normal(*shape) for shape in shapes)


@pytest.mark.parametrize("k", fast_are(["2"], [0, 2, 13]))
@pytest.mark.parametrize("T, S", fast_are(["longer_keys", "longer_queries"], LENGTHS, several=True))
def test_relative_attention_is_the_equation(T, S, k, normal):
    inputs = arrays(normal, T, S, k)
    mask = jnp.asarray(np.random.default_rng(1).random((B, 1, T, S)) < 0.7)
    for value_table in (inputs[4], None):
        context, weights = shaw64(*inputs[:4], value_table, mask)
        got = jax.jit(relative_attention)(*inputs[:4], value_table, mask=mask)
        np.testing.assert_allclose(got, context, atol=2e-6, rtol=2e-5)
    np.testing.assert_allclose(
        jax.jit(relative_weights)(*inputs[:2], inputs[3], mask=mask), weights, atol=2e-6, rtol=2e-5
    )


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 5 queries and several strips, so that these sizes are divided."""
    monkeypatch.setattr(layout, "QUERY_BLOCK", 5)
    monkeypatch.setattr(layout, "MOST_STRIPS", 2)
    monkeypatch.setattr(layout, "TOGETHER", 0)


BLOCKS = {  # T, S, k, causal
    "longer_keys": (13, 23, 2, False),
    "longer_keys_causal": (13, 23, 3, True),
    "longer_queries": (23, 13, 1, False),
    "longer_queries_causal": (23, 13, 0, True),
    "wide_table": (13, 23, 40, False),
    "wide_table_causal": (23, 13, 40, True),
    "one_query": (1, 7, 3, False),
}


@pytest.mark.parametrize("T, S, k, is_causal", fast_are((), BLOCKS, several=True))
def test_blockwise_is_the_equation_and_its_gradients_are_the_dense_ones(T, S, k, is_causal, normal, small_blocks):
    inputs = arrays(normal, T, S, k)
    mask = jnp.asarray(np.random.default_rng(1).random((B, 1, T, S)) < 0.7)
    visible = mask & (np.arange(S) <= np.arange(T)[:, None]) if is_causal else mask
    weight = normal(B, T, N, HV)

    def run(implementation):
        call = lambda *x: relative_attention(*x, mask=mask, is_causal=is_causal, implementation=implementation)
        output, pull = jax.vjp(call, *inputs)
        return output, pull(weight)

    (fast, gradients), (_, expected) = jax.jit(lambda: (run("blockwise"), run("reference")))()
    np.testing.assert_allclose(fast, shaw64(*inputs, visible)[0], atol=3e-6, rtol=3e-5)
    for got, want in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(got, want, atol=2e-5, rtol=2e-4)


def test_an_offset_is_the_position_of_the_first_query_also_when_traced(normal):
    query, key, value, key_table, value_table = arrays(normal, 3, 11)
    expected, _ = shaw64(query, key, value, key_table, value_table, None, offset=7)
    attend = lambda offset: relative_attention(query, key, value, key_table, value_table, query_offset=offset)
    np.testing.assert_allclose(attend(7), expected, atol=2e-6, rtol=2e-5)
    np.testing.assert_allclose(jax.jit(attend)(jnp.int32(7)), expected, atol=2e-6, rtol=2e-5)


@pytest.mark.slow
def test_relative_gradients_are_finite_differences_in_float64(normal):
    with jax.enable_x64(True):
        inputs = tuple(x.astype(jnp.float64) for x in arrays(normal, 5, 7))
        mask = jnp.asarray(np.random.default_rng(1).random((B, 1, 5, 7)) < 0.6)
        for offset in (0, 2):
            attend = lambda *x, offset=offset: relative_attention(*x, mask=mask, query_offset=offset)
            check_grads(jax.jit(attend), inputs, order=1, modes=["rev"], atol=1e-6, rtol=1e-6)


@pytest.mark.slow
def test_an_empty_row_of_relative_attention_is_zero_with_zero_gradients(normal):
    inputs = arrays(normal, 5, 7)
    mask = jnp.ones((B, 1, 5, 7), bool).at[:, :, 3].set(False)
    output, pull = jax.vjp(jax.jit(lambda *x: relative_attention(*x, mask=mask)), *inputs)
    assert not np.any(output[:, 3]) and np.any(output[:, 2])
    for gradient in pull(jnp.zeros_like(output).at[:, 3].set(1.0)):
        assert not np.any(gradient)


def test_no_tensor_of_queries_keys_and_width_is_formed(normal):
    T, S = 17, 19
    inputs = arrays(normal, T, S)
    jaxpr = jax.make_jaxpr(jax.grad(lambda *x: relative_attention(*x).sum(), (0, 1, 2, 3, 4)))(*inputs).jaxpr
    for equation in jaxpr.eqns:
        for result in equation.outvars:
            assert not ({T, S} <= set(result.aval.shape) and {H, HV} & set(result.aval.shape)), equation


def test_relative_errors_name_the_table(normal, unchecked):
    query, key, value, key_table, value_table = arrays(normal, 5, 7)
    with pytest.raises(ValueError, match=r"key_table: expected \[2k\+1, 5\], got shape \[4, 5\]"):
        relative_attention(query, key, value, key_table[:4], value_table)
    with pytest.raises(ValueError, match=r"value_table: expected \[2k\+1, 7\], got shape \[5, 5\]"):
        relative_attention(query, key, value, key_table, key_table)
    with pytest.raises(ValueError, match="mask: expected 4 axes"):
        relative_attention(query, key, value, key_table, mask=jnp.ones((5, 7), bool))
    with pytest.raises(ValueError, match="query_offset: expected 0"):
        relative_attention(query, key, value, key_table, query_offset=1, implementation="blockwise")
    with pytest.raises(ValueError, match="implementation: expected None, reference or blockwise, got 'cudnn'"):
        relative_attention(query, key, value, key_table, implementation="cudnn")
    with pytest.raises(ValueError, match="value: axis S of .* expected 7, got 6"):
        relative_attention(query, key, value[:, :6], key_table)


SETTINGS = {"t5": (32, 128), "narrow": (8, 20), "odd": (14, 100)}


@pytest.mark.parametrize("bidirectional", [True, False], ids=["bidirectional", "causal"])
@pytest.mark.parametrize("num_buckets, max_distance", SETTINGS.values(), ids=SETTINGS)
def test_buckets_are_those_of_the_released_code(num_buckets, max_distance, bidirectional, torch):
    """The released code's arithmetic (log in float32), in PyTorch as in Hugging Face Transformers."""
    distance = torch.arange(-600, 601)
    relative, bucket, count = distance.clone(), torch.zeros_like(distance), num_buckets
    if bidirectional:
        count //= 2
        bucket += (relative > 0).long() * count
        relative = relative.abs()
    else:
        relative = -torch.minimum(relative, torch.zeros_like(relative))
    exact = count // 2
    far = torch.log(relative.float() / exact) / np.log(max_distance / exact) * (count - exact)
    far = torch.minimum(exact + far.clamp(min=0).long(), torch.full_like(relative, count - 1))
    bucket += torch.where(relative < exact, relative, far)
    got = t5_buckets(
        jnp.arange(-600, 601), bidirectional=bidirectional, num_buckets=num_buckets, max_distance=max_distance
    )
    np.testing.assert_array_equal(got, bucket.numpy())


def test_buckets_of_the_paper():
    """32 buckets, bidirectional: 8 exact ones for each side, then logarithmic up to 128. Later keys are 16 higher."""
    distances = jnp.array([0, -1, -7, -8, -11, -12, -127, -128, -4000, 1, 7, 8, 4000])
    expected = [0, 1, 7, 8, 8, 9, 15, 15, 15, 17, 23, 24, 31]
    np.testing.assert_array_equal(t5_buckets(distances, bidirectional=True), expected)


@pytest.mark.parametrize("T, S", fast_are((), LENGTHS, several=True))
@pytest.mark.parametrize("offset", [0, 9])
def test_t5_bias_looks_each_pair_up_and_its_gradient_counts_them(T, S, offset, normal):
    table = normal(14, 3)
    distances = np.arange(S)[None, :] - np.arange(T)[:, None] - offset
    index = np.asarray(
        t5_buckets(jnp.asarray(distances, jnp.int32), bidirectional=True, num_buckets=14, max_distance=20)
    )
    bias = lambda table, offset: t5_relative_bias(table, T, S, bidirectional=True, max_distance=20, query_offset=offset)
    got, pull = jax.vjp(lambda table: jax.jit(bias)(table, jnp.int32(offset)), table)
    assert got.shape == (1, 3, T, S)
    np.testing.assert_allclose(got[0], np.asarray(table)[index].transpose(2, 0, 1), atol=1e-6)
    np.testing.assert_allclose(bias(table, offset), got, atol=1e-6)
    row = t5_distance_bias(table, T, S, bidirectional=True, max_distance=20, query_offset=offset)
    assert row.shape == (3, T + S - 1)
    row, got = np.asarray(row), np.asarray(got)
    for i, j in np.ndindex(T, S):
        np.testing.assert_array_equal(row[:, j - i + T - 1], got[0, :, i, j])
    weight = normal(1, 3, T, S)
    expected = np.zeros(table.shape)
    np.add.at(expected, index, np.asarray(weight[0], np.float64).transpose(1, 2, 0))
    np.testing.assert_allclose(pull(weight)[0], expected, atol=1e-5)


def test_too_few_buckets_are_refused():
    with pytest.raises(ValueError, match="num_buckets: 0 exact buckets a side"):
        t5_buckets(jnp.arange(3), bidirectional=True, num_buckets=2)
