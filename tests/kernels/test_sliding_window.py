"""Sliding windows with global tokens, against dense attention with the pattern and Hugging Face's Longformer."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import dot_product_attention, sliding_window_attention
from attention_research.kernels.efficient import sliding_window_cache, sliding_window_step
from tests.kernels.conftest import attention64

B, T, N, K, H, HV, W = 2, 13, 6, 3, 5, 7, 2
#: 12 is a global token near the end, 4 is listed twice, -1 and 13 are not valid positions.
POSITIONS = jnp.asarray([[12, 4, -1, 4], [0, 13, 7, 1]], jnp.int32)
MASK = jnp.asarray(np.arange(T) < np.array([[11], [13]])).at[:, 6].set(False)


def arrays(normal):
    return normal(B, T, N, H), normal(B, T, K, H), normal(B, T, K, HV)


def window64(query, key, value, *, window, globals_, mask, is_causal, own=None):
    """Dense attention with the paper's pattern, position by position. Global rows use arrays of their own."""
    pattern, is_global = np.zeros((B, 1, T, T), bool), np.zeros((B, T), bool)
    for b in range(B):
        for i in range(T):
            is_global[b, i] = i in globals_[b]
            for j in range(T):
                near = abs(i - j) <= window or i in globals_[b] or j in globals_[b]
                pattern[b, 0, i, j] = near and bool(mask[b, j]) and (j <= i or not is_causal)
    context = attention64(query, key, value, mask=pattern)[0]
    if own is not None:
        full_query = np.zeros(query.shape)
        for b in range(B):
            for i in globals_[b]:
                if 0 <= i < T:
                    full_query[b, i] = own[0][b, list(globals_[b]).index(i)]
        context = np.where(is_global[:, :, None, None], attention64(full_query, *own[1:], mask=pattern)[0], context)
    return context


@pytest.mark.parametrize(
    "window, block_size, is_causal, own",
    [(W, None, False, False), (0, 3, True, True), (W, 1, False, True), (5, 3, True, False), (W, 4, False, True),
     (20, 4, True, False)],
)  # fmt: skip
def test_sliding_window_is_dense_attention_with_the_pattern(window, block_size, is_causal, own, normal):
    inputs = arrays(normal)
    others = (normal(B, 4, N, H), normal(B, T, K, H), normal(B, T, K, HV)) if own else None
    names = dict(zip(("global_query", "global_key", "global_value"), others or (), strict=False))
    settings = dict(window=window, is_causal=is_causal, mask=MASK)
    attend = lambda x, names: sliding_window_attention(
        *x, global_positions=POSITIONS, block_size=block_size, **settings, **names
    )
    got = jax.jit(attend)(inputs, names)
    expected = window64(*inputs, globals_=np.asarray(POSITIONS), own=others, **settings)
    np.testing.assert_allclose(got, expected, atol=5e-6, rtol=5e-5)


@pytest.mark.slow
def test_a_number_of_global_tokens_is_the_first_ones(normal):
    inputs = arrays(normal)
    first = jnp.broadcast_to(jnp.arange(3, dtype=jnp.int32), (B, 3))
    attend = lambda positions: jax.jit(
        lambda *x: sliding_window_attention(*x, window=W, global_positions=positions, block_size=4)
    )(*inputs)
    got = attend(3)
    np.testing.assert_array_equal(got, attend(first))
    expected = window64(*inputs, window=W, globals_=[[0, 1, 2]] * B, mask=np.ones((B, T)), is_causal=False)
    np.testing.assert_allclose(got, expected, atol=5e-6, rtol=5e-5)
    np.testing.assert_allclose(attend(99), jax.jit(dot_product_attention)(*inputs), atol=1e-5)


@pytest.mark.parametrize("is_causal", [False, True], ids=["both_ways", "causal"])
def test_without_global_tokens_it_is_the_window_of_exact_attention_with_its_gradients(is_causal, normal):
    inputs, weight = arrays(normal), normal(B, T, N, HV)
    exact = lambda *x: dot_product_attention(
        *x, mask=MASK[:, None, None, :], local_window_size=W, is_causal=is_causal, implementation="blockwise"
    )
    own = lambda *x: sliding_window_attention(*x, window=W, mask=MASK, is_causal=is_causal, block_size=3)
    want, pull_exact = jax.vjp(jax.jit(exact), *inputs)
    got, pull = jax.vjp(jax.jit(own), *inputs)
    np.testing.assert_allclose(got, want, atol=2e-6)
    for one, other in zip(pull(weight), pull_exact(weight), strict=True):
        np.testing.assert_allclose(one, other, atol=5e-6)


@pytest.mark.slow
def test_longformer_of_hugging_face_gives_the_same(torch):
    transformers = pytest.importorskip("transformers", reason="Hugging Face Transformers is not installed")
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    heads, width, length, window = 3, 5, 24, 3  # the length is a multiple of the two-sided window
    config = transformers.LongformerConfig(
        hidden_size=heads * width, num_attention_heads=heads, num_hidden_layers=1, attention_window=[2 * window],
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    layer = LongformerSelfAttention(config, 0).double().eval()
    hidden = torch.randn(2, length, heads * width, dtype=torch.float64)
    is_global = torch.zeros(2, length, dtype=torch.bool)
    is_global[0, [0, 17]] = True
    is_global[1, [5]] = True
    masked = torch.zeros(2, length, dtype=torch.bool)
    masked[0, 20:] = True
    attention_mask = is_global.double() * 10_000 - masked.double() * 10_000
    with torch.no_grad():
        expected = layer(hidden, attention_mask, masked, is_global, True)[0].numpy()
        projected = {
            name: getattr(layer, name)(hidden).reshape(2, length, heads, width).numpy()
            for name in ("query", "key", "value", "query_global", "key_global", "value_global")
        }
    positions = np.array([[0, 17], [5, -1]], np.int32)
    with jax.enable_x64(True):
        got = jax.jit(partial(sliding_window_attention, window=window))(
            projected["query"], projected["key"], projected["value"], mask=jnp.asarray(~masked.numpy()),
            global_positions=jnp.asarray(positions),
            global_query=np.take_along_axis(projected["query_global"], np.maximum(positions, 0)[:, :, None, None], 1),
            global_key=projected["key_global"], global_value=projected["value_global"],
        )  # fmt: skip
    real = ~masked.numpy()
    # Its softmax is float32, whatever the dtype of the rest.
    np.testing.assert_allclose(np.asarray(got).reshape(2, length, -1)[real], expected[real], atol=1e-6)


@pytest.mark.parametrize("layers", [1, 3])
def test_the_receptive_field_grows_by_one_window_per_layer(layers, normal):
    length, middle = 29, 13
    x = normal(1, length, 1, H) / 3  # prevents underflow of weights

    def network(x):
        for _ in range(layers):
            x = x + sliding_window_attention(x, x, x, window=W, block_size=3)
        return x[0, middle].sum()

    seen = np.flatnonzero(np.any(np.asarray(jax.jit(jax.grad(network))(x)), axis=(0, 2, 3)))
    np.testing.assert_array_equal(seen, np.arange(middle - layers * W, middle + layers * W + 1))


def test_a_step_at_a_time_is_the_whole_sequence_and_the_cache_does_not_grow(normal):
    query, key, value = arrays(normal)
    for num_global in (0, 3):
        cache = sliding_window_cache(key[:, 0], value[:, 0], window=W, num_global=num_global)
        assert cache.key.shape == (B, num_global + W + 1, K, H)
        outputs, step = [], jax.jit(partial(sliding_window_step, num_global=num_global))
        for i in range(T):
            cache, output = step(cache, query[:, i], key[:, i], value[:, i])
            outputs.append(output)
        expected = window64(
            query, key, value, window=W, globals_=[range(num_global)] * B, mask=np.ones((B, T)), is_causal=True
        )
        np.testing.assert_allclose(jnp.stack(outputs, 1), expected, atol=5e-6, rtol=5e-5)


def test_errors_name_the_argument(normal, unchecked):
    query, key, value = arrays(normal)
    cache, token = sliding_window_cache(key[:, 0], value[:, 0], window=2), (query[:, 0], key[:, 0], value[:, 0])
    with pytest.raises(ValueError, match="num_global: expected 0 to 2 for this cache, got 3"):
        sliding_window_step(cache, *token, num_global=3)
    with pytest.raises(ValueError, match=r"key: axis K of \[B K H\]: expected"):
        sliding_window_step(cache, query[:, 0], key[:, 0, :1], value[:, 0, :1])
    with pytest.raises(ValueError, match="window: expected at least 0, got -1"):
        sliding_window_attention(query, key, value, window=-1)
    with pytest.raises(ValueError, match=r"key: axis T of \[B T K H\]: expected 13 as in query, got 12"):
        sliding_window_attention(query, key[:, 1:], value, window=W)
    with pytest.raises(ValueError, match="global_positions: expected at least 0, got -2"):
        sliding_window_attention(query, key, value, window=W, global_positions=-2)
    with pytest.raises(ValueError, match=r"global_query: axis G of \[B G N H\]: expected 2, got 3"):
        sliding_window_attention(query, key, value, window=W, global_positions=2, global_query=query[:, :3])
    with pytest.raises(ValueError, match="block_size: expected at least 1, got 0"):
        sliding_window_attention(query, key, value, window=W, block_size=0)
