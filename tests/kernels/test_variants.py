"""Variants that change dot-product attention in one place, against float64 loops from the papers' equations."""

from __future__ import annotations

import re
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels.variants import (
    absorbed_latent_attention,
    differential_attention,
    differential_lambda,
    grouped_query_attention,
    latent_attention,
    pool_heads,
    query_key_l2_attention,
    query_key_norm_attention,
    sigmoid_attention,
    sink_attention,
    softcap_attention,
    streaming_attention,
    temperature_attention,
)
from tests.kernels.conftest import attention64, softmax64
from tests.tiers import fast_are

B, T, S, N, K, H, HV = 2, 11, 13, 6, 3, 5, 7
MASK = np.random.default_rng(5).random((B, 1, T, S)) < 0.6
MASK[:, :, 4] = False


def heads(normal, T=T, S=S, K=K):
    return normal(B, T, N, H), normal(B, S, K, H), normal(B, S, K, HV)


def wide(*arrays):
    return tuple(np.asarray(x, np.float64) for x in arrays)


def l2(x):
    return x / np.sqrt((x**2).sum(-1, keepdims=True))


def rms(x, gain, epsilon=1e-6):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * gain


def layer(x, gain):
    x = x - x.mean(-1, keepdims=True)
    return rms(x, gain)


def temperature64(query, key, value, temperature, **more):
    return attention64(query / temperature[:, None], key, value, scale=1.0, **more)[0]


def l264(query, key, value, gain, **more):
    return attention64(l2(query) * gain[:, None], l2(key), value, scale=1.0, **more)[0]


def norm64(query, key, value, query_gain, key_gain, center=False, **more):
    norm = layer if center else rms
    return attention64(norm(query, query_gain), norm(key, key_gain), value, **more)[0]


CHANGED = {
    "temperature": (temperature_attention, temperature64, ((N,),), {}),
    "l2": (query_key_l2_attention, l264, ((N,),), {}),
    "l2_of_one_gain": (query_key_l2_attention, l264, ((1,),), {}),
    "rms": (query_key_norm_attention, norm64, ((H,), (H,)), {}),
    "layer_norm": (query_key_norm_attention, norm64, ((H,), (H,)), {"center": True}),
}


@pytest.mark.parametrize("name", fast_are(["l2", "rms"], CHANGED.keys()))
def test_another_scale_or_norm_is_the_equation(name, normal):
    kernel, oracle, shapes, settings = CHANGED[name]
    inputs, parameters = heads(normal), [jnp.abs(normal(*shape)) + 0.5 for shape in shapes]
    bias = normal(1, N, T, S)
    for implementation, more in (("reference", {"is_causal": True}), ("blockwise", {"local_window_size": (3, 2)})):
        call = jax.jit(
            lambda *x, more=more, implementation=implementation: kernel(
                *x[:-1], bias=x[-1], mask=jnp.asarray(MASK), implementation=implementation, **more, **settings
            )
        )
        expected = oracle(*wide(*inputs, *parameters), bias=bias, mask=MASK, **more, **settings)
        np.testing.assert_allclose(call(*inputs, *parameters, bias), expected, atol=2e-5, rtol=1e-4)


@pytest.mark.slow
def test_a_temperature_of_the_width_is_plain_attention(normal):
    inputs = heads(normal)
    got = temperature_attention(*inputs, jnp.full(N, H**0.5))
    np.testing.assert_allclose(got, attention64(*inputs)[0], atol=1e-5)


@pytest.mark.slow
def test_normalised_queries_and_keys_ignore_lengths(normal):
    query, key, value = heads(normal)
    for kernel, parameters in (
        (query_key_l2_attention, (jnp.ones(N),)),
        (query_key_norm_attention, (jnp.ones(H),) * 2),
    ):
        got = kernel(query * 100, key * 7, value, *parameters)
        np.testing.assert_allclose(got, kernel(query, key, value, *parameters), atol=1e-4)


def weighed64(query, key, value, weigh, scale, is_causal, window, mask=MASK):
    """weigh(logits of the visible keys, head) -> their weights, row by row."""
    query, key, value = wide(query, key, value)
    T, S = query.shape[1], key.shape[1]
    out, shown = np.zeros((B, T, N, value.shape[-1])), np.broadcast_to(np.asarray(mask), (B, 1, T, S))
    for b, i, n in np.ndindex(B, T, N):
        seen = [
            j
            for j in range(S)
            if shown[b, 0, i, j]
            and not (is_causal and j > i)
            and (window is None or i - window[0] <= j <= i + window[1])
        ]
        if seen:
            logits = np.array([query[b, i, n] @ key[b, j, n // (N // K)] * scale for j in seen])
            out[b, i, n] = weigh(logits, n) @ value[b, seen, n // (N // K)]
    return out


def softmax(logits):
    exponentials = np.exp(logits - logits.max())
    return exponentials / exponentials.sum()


def normalisers(parameters):
    """name -> (kernel of heads, weights of a row's logits)."""
    row = np.asarray(parameters, np.float64)
    return {
        "softcap": (lambda *x, **k: softcap_attention(*x, cap=1.5, **k), lambda l, n: softmax(1.5 * np.tanh(l / 1.5))),
        "sigmoid": (
            lambda *x, **k: sigmoid_attention(*x, parameters, **k),
            lambda l, n: 1 / (1 + np.exp(-l - row[n])),
        ),
        "sigmoid_of_length": (sigmoid_attention, lambda l, n: 1 / (1 + S * np.exp(-l))),
        "sink": (
            lambda *x, **k: sink_attention(*x, parameters, **k),
            lambda l, n: np.exp(l) / (np.exp(row[n]) + np.exp(l).sum()),
        ),
    }


#: (settings, block size): dense at once, blocks that do or do not divide the length, windows read by slices.
SEEN = {
    "at_once": (dict(scale=None), 512),
    "blocks": (dict(scale=1.3), 4),
    "causal": (dict(scale=None, is_causal=True), 11),
    "window": (dict(scale=None, local_window_size=(2, 1)), 3),
    "causal_window": (dict(scale=None, is_causal=True, local_window_size=3), 2),
}


@pytest.mark.parametrize("name", fast_are(["softcap", "sigmoid"], ["softcap", "sigmoid", "sigmoid_of_length", "sink"]))
def test_another_normaliser_is_the_equation(name, normal):
    inputs, parameters = heads(normal), normal(N)
    kernel, weigh = normalisers(parameters)[name]
    for settings, block_size in SEEN.values() if name == "sink" else list(SEEN.values())[1::3]:
        window = settings.get("local_window_size")
        expected = weighed64(
            *inputs, weigh, settings["scale"] or H**-0.5, settings.get("is_causal", False),
            (window, window) if isinstance(window, int) else window,
        )  # fmt: skip
        call = jax.jit(
            lambda *x, settings=settings, block_size=block_size: kernel(
                *x, mask=jnp.asarray(MASK), block_size=block_size, **settings
            )
        )
        np.testing.assert_allclose(call(*inputs), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.slow
def test_limits_of_the_normalisers_are_plain_attention(normal):
    inputs = heads(normal)
    plain, _ = attention64(*inputs)
    np.testing.assert_allclose(softcap_attention(*inputs, cap=1e4), plain, atol=1e-5)
    np.testing.assert_allclose(sink_attention(*inputs, jnp.full(1, -jnp.inf)), plain, atol=1e-5)
    assert np.abs(sink_attention(*inputs, jnp.full(1, 20.0))).max() < 1e-4


@pytest.mark.slow
def test_released_gemma_and_gpt_oss_agree(normal, torch):
    gemma = pytest.importorskip("transformers.models.gemma2.modeling_gemma2")
    gpt_oss = pytest.importorskip("transformers.models.gpt_oss.modeling_gpt_oss")
    inputs, sink = heads(normal), normal(N)
    seen = np.broadcast_to(MASK, (B, 1, T, S)) | (np.arange(S) == 0)
    additive = torch.tensor(np.where(seen, 0.0, -1e9))
    tensors = [torch.tensor(np.asarray(x, np.float64)).transpose(1, 2) for x in inputs]
    module = SimpleNamespace(
        num_key_value_groups=N // K, training=False, head_dim=H, sinks=torch.tensor(np.asarray(sink, np.float64))
    )
    capped, _ = gemma.eager_attention_forward(module, *tensors, additive, scaling=0.7, softcap=2.0)
    got = softcap_attention(*inputs, jnp.asarray(seen), cap=2.0, scale=0.7)
    np.testing.assert_allclose(got, capped.numpy(), atol=1e-5)
    sunk, _ = gpt_oss.eager_attention_forward(module, *tensors, additive, scaling=0.7)
    np.testing.assert_allclose(sink_attention(*inputs, sink, jnp.asarray(seen), scale=0.7), sunk.numpy(), atol=1e-5)


@pytest.mark.parametrize("num_sinks, window, block_size", [(2, 2, 3), (0, 3, 4), (3, 0, 1), (1, 40, 5), (4, 2, 512)])
def test_streaming_sees_the_first_tokens_and_a_window(num_sinks, window, block_size, normal):
    length = 17
    inputs = heads(normal, length, length)
    mask = np.random.default_rng(7).random((B, 1, 1, length)) < 0.7
    seen = np.zeros((1, 1, length, length), bool)
    for i, j in np.ndindex(length, length):
        seen[0, 0, i, j] = j <= i and (j < num_sinks or i - j <= window)
    call = jax.jit(
        lambda *x: streaming_attention(*x, jnp.asarray(mask), num_sinks=num_sinks, window=window, block_size=block_size)
    )
    np.testing.assert_allclose(call(*inputs), attention64(*inputs, mask=seen & mask)[0], atol=1e-5)


LINEAR = {
    "softcap": lambda *x, **k: softcap_attention(*x, cap=1.5, is_causal=True, **k),
    "sigmoid": sigmoid_attention,
    "sink": lambda *x, **k: sink_attention(*x, jnp.zeros(N), **k),
    "streaming": lambda *x, **k: streaming_attention(*x, num_sinks=2, window=3, **k),
}


@pytest.mark.parametrize("name", LINEAR)
def test_nothing_of_queries_times_keys_is_formed(name, normal):
    """Memory is linear in the length, also in the gradient. A window reads fewer than a fifth of the pairs."""
    length = 101
    inputs = heads(normal, length, length)
    loss = lambda *x: LINEAR[name](*x, block_size=7).sum()
    text = str(jax.make_jaxpr(jax.grad(loss, (0, 1, 2)))(*inputs))
    sizes = [[int(n) for n in dims.split(",")] for dims in re.findall(r"f\d+\[([\d,]+)\]", text)]
    assert len(sizes) > 50 and all(sum(n >= length for n in shape) <= 1 for shape in sizes)
    products = [shape for shape in sizes if 7 in shape and shape[-1] in (length, 2 + 7 + 3)]
    assert products and all((shape[-1] < length / 5) == (name == "streaming") for shape in products)


@pytest.mark.slow
def test_differential_attention_is_the_equations(normal):
    pairs = lambda length, heads: normal(B, length, heads, 2, H)
    query, key, value = pairs(T, N), pairs(S, K), normal(B, S, K, HV)
    vectors, gain = (normal(2, H) / 3, normal(2, H) / 3), normal(HV)
    lambda_init = 0.8 - 0.6 * np.exp(-0.3 * 2)
    (q1, q2), (k1, k2) = wide(*vectors)
    share = np.exp(q1 @ k1) - np.exp(q2 @ k2) + lambda_init
    np.testing.assert_allclose(differential_lambda(*vectors, lambda_init=lambda_init), share, rtol=1e-5)
    maps = [attention64(query[..., p, :], key[..., p, :], value, mask=MASK)[1] for p in (0, 1)]
    expected, weights = np.zeros((B, T, N, HV)), maps[0] - share * maps[1]
    values, gains = wide(value, gain)
    for b, i, n in np.ndindex(B, T, N):
        head = weights[b, n, i] @ values[b, :, n // (N // K)]
        expected[b, i, n] = (1 - lambda_init) * rms(head, gains, 1e-5)
    for implementation in ("reference", "blockwise"):
        call = jax.jit(partial(differential_attention, lambda_init=lambda_init, implementation=implementation))
        got = call(query, key, value, *vectors, gain, jnp.asarray(MASK))
        np.testing.assert_allclose(got, expected, atol=2e-5, rtol=2e-4)


@pytest.mark.slow
def test_equal_halves_of_a_differential_head_leave_their_direction(normal):
    """If A1 = A2 and lambda = 0 (lambda_init = 0, equal vectors), the output is the norm of plain attention."""
    query, key, value = heads(normal)
    twice = lambda x: jnp.stack([x, x], axis=3)
    got = differential_attention(
        twice(query), twice(key), value, jnp.ones((2, H)), jnp.ones((2, H)), jnp.ones(HV), lambda_init=0.0
    )
    np.testing.assert_allclose(got, rms(attention64(query, key, value)[0], 1.0, 1e-5), atol=2e-5)


def test_groups_share_a_head_and_pooling_is_the_mean_of_projections(normal):
    query, key, value = heads(normal, K=N)
    for groups in (1, 3):
        pooled = np.zeros((B, S, groups, H)), np.zeros((B, S, groups, HV))
        for source, target in zip((key, value), pooled, strict=True):
            for n in range(N):
                target[:, :, n // (N // groups)] += np.asarray(source[:, :, n], np.float64) / (N // groups)
        expected, _ = attention64(query, *pooled, mask=MASK)
        got = grouped_query_attention(query, key, value, mask=jnp.asarray(MASK), num_groups=groups)
        np.testing.assert_allclose(got, expected, atol=1e-5)
        narrow = [jnp.asarray(x, jnp.float32) for x in pooled]
        got = grouped_query_attention(query, *narrow, mask=jnp.asarray(MASK))
        np.testing.assert_allclose(got, expected, atol=1e-5)
        kernel, x = normal(17, N, H), normal(B, S, 17)
        converted = jnp.einsum("BSD,DKH->BSKH", x, pool_heads(kernel, groups))
        projected = jnp.einsum("BSD,DNH->BSNH", x, kernel)
        np.testing.assert_allclose(converted, pool_heads(projected, groups), atol=1e-4)
    with pytest.raises(ValueError, match="num_groups: expected a divisor of the 6 heads on axis N, got 4"):
        pool_heads(key, 4)


def test_latent_attention_is_the_equations_in_both_forms(normal):
    P, R = 3, 11
    inputs = (normal(B, T, N, H), normal(B, T, N, P), normal(B, S, R), normal(B, S, P), normal(R, N, H),
              normal(R, N, HV))  # fmt: skip
    query, rotated, latent, shared, key_weight, value_weight = wide(*inputs)
    expected = np.zeros((B, T, N, HV))
    for b, n in np.ndindex(B, N):
        key = np.array([key_weight[:, n].T @ c for c in latent[b]])
        value = np.array([value_weight[:, n].T @ c for c in latent[b]])
        logits = np.zeros((T, S))
        for i, j in np.ndindex(T, S):
            logits[i, j] = (query[b, i, n] @ key[j] + rotated[b, i, n] @ shared[b, j]) / np.sqrt(H + P)
        expected[b, :, n] = softmax64(logits, MASK[b, 0]) @ value
    for kernel in (latent_attention, absorbed_latent_attention):
        for implementation in ("reference", "blockwise"):
            got = jax.jit(
                lambda *x, kernel=kernel, implementation=implementation: kernel(
                    *x, jnp.asarray(MASK), implementation=implementation
                )
            )(*inputs)
            np.testing.assert_allclose(got, expected, atol=5e-5, rtol=1e-4)


def test_the_absorbed_form_creates_no_keys_per_head(normal):
    length = 29
    inputs = (normal(B, 1, N, H), normal(B, 1, N, 3), normal(B, length, 11), normal(B, length, 3), normal(11, N, H),
              normal(11, N, HV))  # fmt: skip
    shapes = lambda kernel: {
        tuple(result.aval.shape) for e in jax.make_jaxpr(kernel)(*inputs).jaxpr.eqns for result in e.outvars
    }
    assert (B, length, N, H) in shapes(latent_attention)
    assert not any(length in shape and H in shape for shape in shapes(absorbed_latent_attention))


def test_errors_name_the_argument(normal, unchecked):
    query, key, value = heads(normal)
    with pytest.raises(ValueError, match="cap: expected more than 0"):
        softcap_attention(query, key, value, cap=0)
    with pytest.raises(ValueError, match="key: axis K of .* expected a divisor of the query's 6 heads, got 4"):
        sink_attention(query, normal(B, S, 4, H), normal(B, S, 4, HV), jnp.zeros(N))
    with pytest.raises(ValueError, match="sink: axis N of .* expected 1 or 6 as in query, got 3"):
        sink_attention(query, key, value, jnp.zeros(3))
    with pytest.raises(ValueError, match="num_sinks, window: expected at least 0"):
        streaming_attention(query, key, value, num_sinks=-1, window=2)
    with pytest.raises(ValueError, match=r"key: axis 2 of \[B S K 2 H\]: expected 2 as in query, got 3"):
        bad = normal(B, S, K, 3, H)
        differential_attention(normal(B, T, N, 2, H), bad, value, *[normal(2, H)] * 2, normal(HV), lambda_init=0.2)
