"""Logits of scale 1e-3 to 1e10, and rows hidden by finite biases: every implementation against float64.

The tolerance is the error of the dense form in float32 (twice for outputs, three times for gradients) plus one rounding
of each product. The rounding error of a gradient is proportional to its terms, which may cancel. The oracle therefore
also returns the sum of the absolute values of the terms.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import dot_product_attention, relative_attention, ring_attention
from attention_research.kernels.attention import layout, pallas

B, T, N, K, H = 2, 13, 4, 2, 5
EPS = float(np.finfo(np.float32).eps)
LOWEST = float(np.finfo(np.float32).min)
IMPLEMENTATIONS = ("reference", "blockwise", "xla", "pallas", "ring")
NAMES = ("query", "key", "value", "bias")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Several blocks in each row and column, with ragged last ones."""
    for name, size in {"QUERY_BLOCK": 5, "SMALLEST_BLOCK": 3, "MOST_STRIPS": 2, "TOGETHER": 0}.items():
        monkeypatch.setattr(layout, name, size)
    monkeypatch.setattr(pallas, "default_blocks", lambda *_, **__: pallas.Blocks(query=4, key=8, own=8, step=4))


def hiding(lowest: float) -> np.ndarray:
    """A bias that hides all keys of rows 4 and 7, and some keys of the others."""
    bias = np.where(np.random.default_rng(5).random((B, 1, T, T)) < 0.3, lowest, 0.0)
    bias[:, :, [4, 7]] = lowest
    return bias.astype(np.float32)


BIASES = {"none": np.zeros((B, 1, T, T), np.float32), "-1e9": hiding(-1e9), "finfo.min": hiding(LOWEST)}
MASK = np.random.default_rng(2).random((B, 1, T, T)) < 0.7


def inputs(scale: float) -> tuple[np.ndarray, ...]:
    """query, key, value and a weight for the output; logits of about `scale`, before the division by sqrt(H)."""
    random = np.random.default_rng(1)
    shapes = ((B, T, N, H), (B, T, K, H), (B, T, K, H), (B, T, N, H))
    query, key, value, weight = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
    return query * np.float32(scale**0.5), key * np.float32(scale**0.5), value, weight


def exact(query, key, value, weight, bias, mask) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Output and gradients of sum(output * weight) in float64, each with the sum of its terms' absolute values."""
    query, key, value, weight, bias = (np.asarray(x, np.float64) for x in (query, key, value, weight, bias))
    key, value = (np.repeat(x, N // K, axis=2) for x in (key, value))
    logits = np.einsum("btnh,bsnh->bnts", query, key) * H**-0.5 + bias
    logits = np.where(mask, logits, -np.inf)
    largest = logits.max(-1, keepdims=True, initial=LOWEST * 2)
    p = np.exp(logits - largest)
    p /= np.where(p.sum(-1, keepdims=True) == 0, 1, p.sum(-1, keepdims=True))
    towards, far = np.einsum("btnh,bsnh->bnts", weight, value), np.einsum("btnh,bsnh->bnts", abs(weight), abs(value))
    slope = p * (towards - (p * towards).sum(-1, keepdims=True))
    steep = p * (far + (p * far).sum(-1, keepdims=True))
    heads = lambda x: x.reshape(B, T, K, N // K, H).sum(3)

    def of_all(slope, query, key, value, weight):
        return {
            "output": np.einsum("bnts,bsnh->btnh", p, value),
            "query": np.einsum("bnts,bsnh->btnh", slope, key) * H**-0.5,
            "key": heads(np.einsum("bnts,btnh->bsnh", slope, query) * H**-0.5),
            "value": heads(np.einsum("bnts,btnh->bsnh", p, weight)),
            "bias": slope.sum(1, keepdims=True),
        }

    signed = of_all(slope, query, key, value, weight)
    absolute = of_all(steep, *map(abs, (query, key, value, weight)))
    return {name: (signed[name], absolute[name]) for name in signed}


@functools.cache
def compiled(implementation: str):
    def attend(query, key, value, bias, mask):
        if implementation != "ring":
            return dot_product_attention(query, key, value, bias, mask, implementation=implementation)
        return jax.vmap(
            functools.partial(ring_attention, axis_name="ring", mask=None), axis_name="ring"
        )(query[None], key[None], value[None])[0]  # fmt: skip

    def loss(floats, mask, weight):
        output = attend(**floats, mask=mask)
        return jnp.vdot(output, weight), output

    return jax.jit(jax.value_and_grad(loss, has_aux=True))


def computed(implementation: str, query, key, value, weight, bias, mask) -> dict[str, np.ndarray]:
    floats = dict(zip(NAMES, (query, key, value, bias), strict=True))
    (_, output), gradients = compiled(implementation)(floats, mask, weight)
    return {name: np.asarray(x) for name, x in {"output": output, **gradients}.items()}


@pytest.mark.parametrize("bias", BIASES.values(), ids=BIASES)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_outputs_and_gradients_are_those_of_float64_at_every_scale(implementation, bias):
    ring = implementation == "ring"
    if ring and bias.any():
        pytest.skip("ring attention takes no bias")
    mask = np.ones_like(MASK) if ring else MASK
    for scale in (1e-3, 1.0, 1e3, 1e6, 1e10):
        given = (*inputs(scale), bias, mask)
        truth, dense, got = exact(*given), computed("reference", *given), computed(implementation, *given)
        for name, (right, absolute) in truth.items():
            if ring and name == "bias":
                continue
            times = 2 if name == "output" else 3
            allowed = times * np.abs(dense[name] - right).max() + 64 * EPS * absolute.max()
            assert np.isfinite(got[name]).all(), (scale, name)
            assert np.abs(got[name] - right).max() <= allowed, (scale, name)
            if scale != 1e3 and not bias.any():  # rounding of the logits has no effect: weights are equal or one-hot
                assert np.abs(dense[name] - right).max() <= 1e3 * EPS * absolute.max(), (scale, name)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_logits_of_1e10_without_bias_or_mask(implementation):
    """Without them the maximum is subtracted right after the product is multiplied by the scale."""
    query, key, value, _ = inputs(1e10)
    right = exact(query, key, value, value[:, :, :1], BIASES["none"], np.ones_like(MASK))["output"][0]
    if implementation == "ring":
        got = jax.vmap(functools.partial(ring_attention, axis_name="ring"), axis_name="ring")(
            query[None], key[None], value[None]
        )[0]
    else:
        got = jax.jit(functools.partial(dot_product_attention, implementation=implementation))(query, key, value)
    np.testing.assert_allclose(got, right, atol=1e-6)


@pytest.mark.parametrize("lowest", [-1e9, LOWEST], ids=["-1e9", "finfo.min"])
@pytest.mark.parametrize("implementation", ["reference", "blockwise", "xla", "pallas"])
def test_a_row_hidden_by_a_finite_bias_attends_to_all_keys_alike(implementation, lowest):
    query, key, value, weight = inputs(1.0)
    only = np.zeros_like(weight)
    only[:, 4] = weight[:, 4]
    got = computed(implementation, query, key, value, only, hiding(lowest), np.ones_like(MASK))
    mean = np.repeat(value.astype(np.float64).mean(1), N // K, axis=1)
    np.testing.assert_allclose(got["output"][:, 4], mean, atol=1e-6)
    even = only[:, 4].reshape(B, 1, K, N // K, H).sum(3).repeat(T, axis=1) / T
    np.testing.assert_allclose(got["value"], even, atol=1e-6)


@pytest.mark.parametrize("implementation", ["reference", "blockwise", "xla", "pallas"])
def test_a_finite_bias_does_not_show_what_a_mask_hides(implementation):
    query, key, value, weight = inputs(1.0)
    mask = np.ones_like(MASK)
    mask[..., 6:] = False
    value[:, 6:] = 1e6
    got = computed(implementation, query, key, value, weight, np.full_like(BIASES["none"], LOWEST), mask)
    np.testing.assert_allclose(got["output"], np.repeat(value[:, :6].mean(1, keepdims=True), N // K, 2).repeat(T, 1),
                               atol=1e-6)  # fmt: skip
    assert not got["value"][:, 6:].any()


def test_large_logits_under_tables_by_distance():
    """Shaw's attention uses the same blocks. With a table of 1e6 the value table has the gradient of the dense form."""
    query, key, value, weight = (jnp.asarray(x) for x in inputs(1e6))
    tables = [jnp.asarray(np.random.default_rng(n).standard_normal((5, H)), jnp.float32) for n in (7, 8)]
    many = layout.QUERY_BLOCK

    def gradients(*inputs):
        key, value = (jnp.repeat(x, N // K, axis=2) for x in inputs[1:3])
        return jnp.vdot(relative_attention(inputs[0], key, value, *inputs[3:]), weight)

    got = jax.jit(jax.grad(gradients, tuple(range(5))))(query, key, value, *tables)
    logits = np.einsum("btnh,bsnh->bnts", *(np.asarray(x, np.float64) for x in (query, jnp.repeat(key, N // K, 2))))
    assert many < T and np.isfinite(logits).all()
    distance = np.clip(np.arange(T)[None] - np.arange(T)[:, None], -2, 2) + 2
    logits += np.einsum("btnh,tsh->bnts", np.asarray(query, np.float64), np.asarray(tables[0], np.float64)[distance])
    p = np.exp((logits - logits.max(-1, keepdims=True)) * H**-0.5)
    p /= p.sum(-1, keepdims=True)
    shares = np.zeros((5, H))
    np.add.at(shares, distance, np.einsum("bnts,btnh->tsh", p, np.asarray(weight, np.float64)))
    np.testing.assert_allclose(got[4], shares, atol=1e-4)


@pytest.mark.parametrize("implementation", ["reference", "blockwise", "pallas"])
def test_a_row_that_sees_nothing_ignores_the_cotangent_of_its_log_sum_exp(implementation):
    """It may be NaN: log(e^-inf + e^-inf), where two parts of the keys are merged that the row does not see."""
    x = jnp.asarray(np.random.default_rng(0).standard_normal((1, 4, 1, 3)), jnp.float32)
    mask = jnp.asarray([[True], [False], [True], [True]]) & jnp.ones((4, 4), bool)

    def loss(key):
        output, log = dot_product_attention(
            x, key, x, mask=mask[None, None], return_residual=True, implementation=implementation
        )
        both = jnp.logaddexp(log, jnp.where(mask.all(1)[None, :, None], log, -jnp.inf))
        share = jnp.where(both == -jnp.inf, 0.0, jnp.exp(log - both))
        return jnp.sum(output * share[..., None] * x)

    gradient = np.asarray(jax.grad(loss)(x))
    assert np.isfinite(gradient).all() and np.abs(gradient).max() > 1e-3


@pytest.mark.parametrize("implementation", ["reference", "blockwise"])
@pytest.mark.parametrize("bound", [2**31 - 1, 10**10])
def test_a_window_without_an_end_and_an_offset_that_is_an_array(implementation, bound):
    x = jnp.asarray(np.random.default_rng(0).standard_normal((1, 4, 1, 3)), jnp.float32)
    attend = lambda offset: dot_product_attention(
        x, x, x, local_window_size=(1, bound), query_offset=offset, implementation=implementation
    )
    np.testing.assert_allclose(attend(jnp.int32(0)), attend(0), atol=1e-6)


def test_the_libraries_add_biases_in_float32():
    """2048 and 2051 are the same number in bfloat16."""
    x, value = jnp.zeros((1, 1, 1, 2), jnp.bfloat16), jnp.eye(2, dtype=jnp.bfloat16)[None, :, None]
    keys, bias = jnp.zeros((1, 2, 1, 2), jnp.bfloat16), jnp.zeros((1, 1, 1, 2), jnp.bfloat16)
    attend = lambda implementation: dot_product_attention(
        x, keys, value, bias, distance_bias=jnp.asarray([[2048.0, 2051.0]]), implementation=implementation
    )
    with jax.numpy_dtype_promotion("standard"):  # JAX's own function needs it
        assert attend("xla")[0, 0, 0].tolist() == attend("reference")[0, 0, 0].tolist() != [0.5, 0.5]
