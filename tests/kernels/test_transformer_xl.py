"""Transformer-XL's attention against the double loop, XLNet's code, and one pass over the whole sequence."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import sinusoidal_positions, transformer_xl_attention, window_mask
from attention_research.kernels.positions import extend_with_memory, next_memory, transformer_xl_weights
from tests.kernels.conftest import softmax64
from tests.tiers import fast_are

B, N, K, H, HV, D = 2, 6, 3, 5, 7, 17
LENGTHS = {"memory": (5, 11), "no_memory": (7, 7), "one_query": (1, 7)}


def transformer_xl64(query, key, value, relative_key, u, v, mask=None, offset=None):
    """Dai et al. 2019, section 3.3, pair by pair in float64: (context, weights)."""
    query, key, value, relative_key, u, v = (np.asarray(x, np.float64) for x in (query, key, value, relative_key, u, v))
    (B, T, N, H), (S, K, Hv) = query.shape, value.shape[1:]
    first = S - T if offset is None else offset
    logits, visible = np.zeros((B, N, T, S)), np.zeros((B, N, T, S), bool)
    shown = np.broadcast_to(True if mask is None else np.asarray(mask), logits.shape)
    for b, n, i, j in np.ndindex(*logits.shape):
        if j <= first + i:
            visible[b, n, i, j] = shown[b, n, i, j]
            k, r = key[b, j, n // (N // K)], relative_key[first + i - j, n]
            logits[b, n, i, j] = (query[b, i, n] @ k + query[b, i, n] @ r + u[n] @ k + v[n] @ r) / np.sqrt(H)
    weights = softmax64(logits, visible)
    context = np.zeros((B, T, N, Hv))
    for b, n, i, j in np.ndindex(*logits.shape):
        context[b, i, n] += weights[b, n, i, j] * value[b, j, n // (N // K)]
    return context, weights


def arrays(normal, T: int, S: int):
    shapes = (B, T, N, H), (B, S, K, H), (B, S, K, HV), (S, N, H), (N, H), (N, H)
    return tuple(normal(*shape) for shape in shapes)


@pytest.mark.parametrize("T, S", fast_are(["memory"], LENGTHS, several=True))
def test_transformer_xl_is_the_equation(T, S, normal):
    inputs = arrays(normal, T, S)
    mask = jnp.asarray(np.random.default_rng(1).random((B, 1, T, S)) < 0.7)
    context, weights = transformer_xl64(*inputs, mask)
    got = jax.jit(transformer_xl_attention)(*inputs, mask=mask)
    np.testing.assert_allclose(got, context, atol=5e-6, rtol=5e-5)
    got = transformer_xl_weights(*inputs[:2], *inputs[3:], mask=mask)
    np.testing.assert_allclose(got, weights, atol=2e-6, rtol=2e-5)


def test_an_offset_is_the_position_of_the_first_query_also_when_traced(normal):
    inputs = arrays(normal, 3, 11)
    expected, _ = transformer_xl64(*inputs, offset=6)
    attend = lambda offset: transformer_xl_attention(*inputs, query_offset=offset)
    np.testing.assert_allclose(attend(6), expected, atol=5e-6, rtol=5e-5)
    np.testing.assert_allclose(jax.jit(attend)(jnp.int32(6)), expected, atol=5e-6, rtol=5e-5)


def test_the_logits_are_those_of_xlnet(normal, torch):
    """Hugging Face's XLNet keeps Transformer-XL's released code. Its relative keys run from S to -T + 1."""
    xlnet = pytest.importorskip("transformers.models.xlnet.modeling_xlnet")
    T, S = 5, 11
    shapes = (B, T, N, H), (B, S, N, H), (S, N, H), (N, H), (N, H)
    query, key, relative_key, u, v = (normal(*shape) for shape in shapes)
    config = xlnet.XLNetConfig(d_model=N * H, n_head=N, n_layer=1, d_inner=7, dropout=0.0)
    config.d_head = H
    layer = xlnet.XLNetRelativeAttention(config).eval()
    tensor = lambda x: torch.tensor(np.asarray(x))
    heads_first = lambda x: tensor(x).transpose(0, 1)
    layer.r_w_bias.data, layer.r_r_bias.data = tensor(u), tensor(v)
    # Row m of XLNet's relative keys is for distance S - m. A causal query never sees distance S or negative distances.
    rows = np.zeros((S + T, 1, N, H), np.float32)
    rows[1 : S + 1, 0] = np.asarray(relative_key)[::-1]
    hidden = np.triu(np.ones((T, S), np.float32), S - T + 1)[:, :, None, None]
    context = layer.rel_attn_core(
        heads_first(query),
        heads_first(key),
        heads_first(key),
        torch.tensor(rows).expand(-1, B, -1, -1),
        attn_mask=torch.tensor(hidden),
    )
    got = transformer_xl_attention(query, key, key, relative_key, u, v)
    np.testing.assert_allclose(got, context.detach().transpose(0, 1), atol=5e-6)


def layers(normal, count: int):
    """Residual layers with one group of heads each: x + attention(x, [memory; x]), with shared u and v."""
    scale = D**-0.5
    weights = [tuple(normal(D, N, H) * scale for _ in range(4)) for _ in range(count)]
    outs = [normal(N, H, D) * scale for _ in range(count)]
    u, v = normal(N, H), normal(N, H)

    @jax.jit
    def run(x, memories, mask=None):
        """(the last layer's output, each layer's input)."""
        inputs = []
        for (of_query, of_key, of_value, of_distance), out, memory in zip(weights, outs, memories, strict=True):
            inputs.append(x)
            both = extend_with_memory(memory, x)
            project = lambda x, w: jnp.einsum("BTD,DNH->BTNH", x, w)
            relative_key = project(sinusoidal_positions(both.shape[1], D)[None], of_distance)[0]
            context = transformer_xl_attention(
                project(x, of_query), project(both, of_key), project(both, of_value), relative_key, u, v, mask=mask
            )
            x = x + jnp.einsum("BTNH,NHD->BTD", context, out)
        return x, inputs

    return run


def by_segments(run, count, x, segment, length):
    """The outputs of the segments one after the other, with each layer's memory carried along."""
    memories, outputs = [jnp.zeros((B, 0, D))] * count, []
    for start in range(0, x.shape[1], segment):
        output, inputs = run(x[:, start : start + segment], memories)
        memories = [next_memory(memory, one, length=length) for memory, one in zip(memories, inputs, strict=True)]
        outputs.append(output)
    return jnp.concatenate(outputs, axis=1)


@pytest.mark.parametrize("segment, length", fast_are((), {"5-7": (5, 7), "5-3": (5, 3), "1-3": (1, 3)}, several=True))
def test_segments_with_memory_are_one_pass_under_a_mask(segment, length, normal):
    """A query sees its own segment and `length` positions before it. Segments of length 1 give exactly a window."""
    T, count = (13 if segment > 1 else 7), 2
    run, x = layers(normal, count), normal(B, T, D)
    row, column = np.arange(T)[:, None], np.arange(T)[None]
    mask = jnp.asarray(column >= (row // segment) * segment - length)[None, None]
    if segment == 1:
        np.testing.assert_array_equal(mask, window_mask(T, T, (length, T)))
    whole, _ = run(x, [jnp.zeros((B, 0, D))] * count, mask)
    np.testing.assert_allclose(by_segments(run, count, x, segment, length), whole, atol=2e-5)
    without, _ = run(x, [jnp.zeros((B, 0, D))] * count, jnp.ones_like(mask))
    assert np.abs(whole - without).max() > 1e-3


def test_the_memory_has_no_gradient_and_the_whole_sequence_has(normal):
    run, x = layers(normal, 1), normal(B, 8, D)
    last = lambda x: by_segments(run, 1, x, 4, 4)[:, 4:].sum()
    gradient = jax.jit(jax.grad(last))(x)
    assert not np.any(gradient[:, :4]) and np.all(np.any(gradient[:, 4:], axis=-1))
    whole = jax.jit(jax.grad(lambda x: run(x, [jnp.zeros((B, 0, D))])[0][:, 4:].sum()))(x)
    assert np.all(np.any(whole[:, :4], axis=-1))


def test_memory_keeps_the_last_states(normal):
    memory, x = normal(B, 3, D), normal(B, 5, D)
    both = np.concatenate([memory, x], axis=1)
    np.testing.assert_array_equal(extend_with_memory(memory, x), both)
    for length, expected in ((None, both[:, 5:]), (7, both[:, 1:]), (11, both), (0, both[:, 8:])):
        np.testing.assert_array_equal(next_memory(memory, x, length=length), expected)
    gradients = jax.grad(lambda *arrays: next_memory(*arrays).sum(), (0, 1))(memory, x)
    assert not np.any(gradients[0]) and not np.any(gradients[1])


def test_no_tensor_of_queries_keys_and_width_is_formed(normal):
    T, S = 17, 19
    inputs = arrays(normal, T, S)
    attend = lambda *x: transformer_xl_attention(*x).sum()
    jaxpr = jax.make_jaxpr(jax.grad(attend, tuple(range(6))))(*inputs).jaxpr
    shapes = [set(result.aval.shape) for equation in jaxpr.eqns for result in equation.outvars]
    assert any({T, S} <= shape for shape in shapes)
    assert not any({T, S} <= shape and {H, HV} & shape for shape in shapes)


def test_errors_name_the_axis(normal, unchecked):
    query, key, value, relative_key, u, v = arrays(normal, 5, 11)
    with pytest.raises(ValueError, match=r"relative_key: axis S of \[S N H\]: expected 11 as in key, got 10"):
        transformer_xl_attention(query, key, value, relative_key[:10], u, v)
    with pytest.raises(ValueError, match=r"position_bias: axis N of \[N H\]: expected 6 as in query, got 3"):
        transformer_xl_attention(query, key, value, relative_key, u, v[:3])
    with pytest.raises(ValueError, match=r"key: axis S of \[B S K H\]: expected at least the query's 5, got 3"):
        transformer_xl_attention(query, key[:, :3], value[:, :3], relative_key[:3], u, v)
