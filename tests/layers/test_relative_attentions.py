"""Attention layers with distances (ALiBi, rotary, Shaw's tables): equations in float64 NumPy, and their properties."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.errors import ConfigError
from attention_research.layers.attention.multi_head import Where
from attention_research.registry import lookup

B, T, N, H = 2, 7, 4, 6
D = N * H


def made(kind, **settings):
    layer = lookup("causal_attention", kind)(width=D, num_heads=N, head_width=None, rngs=nnx.Rngs(0), **settings)
    x = np.random.default_rng(1).standard_normal((B, T, D))
    return layer, x


def called(layer, x, is_causal):
    return jax.jit(lambda x: layer(x, is_causal=is_causal))(jnp.asarray(x, jnp.float32))


def projected(layer, x):
    """Queries, keys and values [B T N H] in float64."""
    parts = (layer.query, layer.key, layer.value)
    return [(x @ np.asarray(p.kernel[...], np.float64) + np.asarray(p.bias[...])).reshape(B, -1, N, H) for p in parts]


def attended(layer, scores, value, *, is_causal):
    scores = np.where(np.tri(T, dtype=bool) | (not is_causal), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    context = np.einsum("bnts,bsnh->btnh", weights, value).reshape(B, T, D)
    return context @ np.asarray(layer.output.kernel[...], np.float64) + np.asarray(layer.output.bias[...]), weights


def alibi_scores(query, key):
    distance = np.abs(np.subtract.outer(np.arange(T), np.arange(T)))
    slopes = 2.0 ** (-8 * np.arange(1, N + 1) / N)
    return np.einsum("btnh,bsnh->bnts", query, key) / np.sqrt(H) - slopes[:, None, None] * distance


def rotary_scores(query, key, base=10000.0):
    """Pairs of features as complex numbers, which a position multiplies by e^(i p theta)."""
    angles = np.arange(T)[:, None] * base ** (-np.arange(0, H, 2) / H)
    turn = lambda x: (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)[:, None]
    return np.einsum("btnh,bsnh->bnts", turn(query), turn(key).conj()).real / np.sqrt(H)


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize(("kind", "scores"), [("alibi", alibi_scores), ("rotary", rotary_scores)])
def test_it_is_its_equation(kind, scores, is_causal):
    layer, x = made(kind)
    query, key, value = projected(layer, x)
    want, weights = attended(layer, scores(query, key), value, is_causal=is_causal)
    got, aux = called(layer, x, is_causal)
    np.testing.assert_allclose(got, want, atol=2e-5)
    np.testing.assert_allclose(aux["attention_weights"], weights, atol=2e-6)


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("k", [0, 2])
@pytest.mark.parametrize("kind", ["relative", "relative_keys", "relative_values"])
def test_shaws_tables_are_on_what_the_kind_names(kind, k, is_causal):
    if kind == "relative_keys":
        k += 1  # its table needs k > 0
    layer, x = made(kind, max_distance=k)
    query, key, value = projected(layer, x)
    row = np.clip(np.subtract.outer(np.arange(T), np.arange(T)).T, -k, k) + k  # entry for query i and key j: j - i
    tables = {name: np.asarray(getattr(layer, name)[...], np.float64)[row] for name in ("key_table", "value_table")
              if hasattr(layer, name)}  # fmt: skip
    scores = np.einsum("btnh,bsnh->bnts", query, key)
    scores = scores + np.einsum("btnh,tsh->bnts", query, tables.get("key_table", np.zeros((T, T, H))))
    scores = np.where(np.tri(T, dtype=bool) | (not is_causal), scores / np.sqrt(H), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    context = np.einsum("bnts,bsnh->btnh", weights, value)
    context += np.einsum("bnts,tsh->btnh", weights, tables.get("value_table", np.zeros((T, T, H))))
    want = context.reshape(B, T, D) @ np.asarray(layer.output.kernel[...], np.float64)
    got, aux = called(layer, x, is_causal)
    np.testing.assert_allclose(got, want + np.asarray(layer.output.bias[...]), atol=2e-5)
    np.testing.assert_allclose(aux["attention_weights"], weights, atol=2e-6)


def test_a_single_distance_removes_positions():
    """Shaw et al. 2018, Table 2, k = 0: the order of the keys does not matter, and the one key vector has no effect."""
    layer, x = made("relative", max_distance=0)
    x = jnp.asarray(x, jnp.float32)
    order, run = np.random.default_rng(2).permutation(T), jax.jit(lambda layer, x: layer(x)[0])
    plain = run(layer, x)
    np.testing.assert_allclose(run(layer, x[:, order]), plain[:, order], atol=2e-6)
    layer.key_table[...] = layer.key_table[...] + 5.0
    np.testing.assert_allclose(run(layer, x), plain, atol=2e-5)


def test_the_base_is_that_of_the_frequencies():
    layer, x = made("rotary", base=50.0)
    query, key, value = projected(layer, x)
    want, _ = attended(layer, rotary_scores(query, key, base=50.0), value, is_causal=True)
    np.testing.assert_allclose(called(layer, x, True)[0], want, atol=2e-5)


@pytest.mark.parametrize("is_causal", [True, False])
def test_positions_are_added_to_queries_keys_and_values(is_causal):
    layer, x = made("positional", max_length=9)
    angles = np.arange(T)[:, None] / 10000 ** (np.arange(0, H, 2) / H)
    places = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(T, 1, H)
    query, key, value = (part + places for part in projected(layer, x))
    scores = np.einsum("btnh,bsnh->bnts", query, key) / np.sqrt(H)
    want, weights = attended(layer, scores, value, is_causal=is_causal)
    got, aux = called(layer, x, is_causal)
    np.testing.assert_allclose(got, want, atol=2e-5)
    np.testing.assert_allclose(aux["attention_weights"], weights, atol=2e-6)


def test_positions_beyond_the_largest_are_refused():
    layer, x = made("positional", max_length=T - 1)
    message = f"positional attention: {T} positions; expected at most max_length {T - 1}"
    for arrays in ((x,), (x[:, :2], x)):
        with pytest.raises(ValueError, match=message):
            layer(*(jnp.asarray(array, jnp.float32) for array in arrays))


@pytest.mark.parametrize(
    "kind", ["alibi", "rotary", "relative", "relative_keys", "relative_values", "relative_keys_bias"]
)
def test_weights_depend_on_distances_only(kind):
    """Queries and keys further down the sequence have the same weights as at its beginning."""
    layer, x = made(kind)

    @jax.jit
    def mixed(x):
        query, (key, value) = layer.queries(x[:, :2]), layer.keys_values(x)
        _, here = layer.mix(query, key[:, :3], value[:, :3], Where(offset=1))
        later = jnp.pad(key[:, :3], ((0, 0), (4, 0), (0, 0), (0, 0)))
        seen = (jnp.arange(7) >= 4)[None, None, None]
        later_value = jnp.pad(value[:, :3], ((0, 0), (4, 0), (0, 0), (0, 0)))
        return here, layer.mix(query, later, later_value, Where(seen, offset=5))[1]

    here, there = mixed(jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(there[..., 4:], here, atol=2e-6)


def test_an_odd_head_is_refused():
    with pytest.raises(ConfigError, match="head_width: 3; rotary"):
        lookup("causal_attention", "rotary")(width=12, num_heads=4, head_width=None, rngs=nnx.Rngs(0))
