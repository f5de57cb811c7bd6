"""Layers around the softmax against float64 NumPy: each has its equation written out for one query at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.errors import ConfigError
from attention_research.layers.structure import abstract
from attention_research.registry import lookup

B, T, D, N, K, H, R, P, W = 2, 11, 7, 6, 2, 4, 5, 2, 3
SIZES = {"width": D, "num_heads": N, "head_width": H}
LONGEST, DEPTH = 13, 2


def softmax(logits):
    e = np.exp(logits - logits.max())
    return e / e.sum()


def turned(x, places):
    """Rotary positions of [S H]."""
    angle = np.asarray(places)[:, None] * 10000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    z = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)
    return np.stack([z.real, z.imag], -1).reshape(x.shape)


def dot(q, k):
    return k @ q / np.sqrt(H)


def normed(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def centred(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


# Each oracle: (parameters, head, position i, queries, keys and values [S H] of the head) -> weights of keys 0 to i.


def sink(w, n, i, q, k):
    return softmax(np.append(dot(q[i], k[: i + 1]), w["sink"][n]))[:-1]


def softcap(w, n, i, q, k):
    return softmax(1.5 * np.tanh(dot(q[i], k[: i + 1]) / 1.5))


def sigmoid(w, n, i, q, k):
    bias = w["logit_bias"][n] if "logit_bias" in w else -np.log(LONGEST)
    return 1 / (1 + np.exp(-dot(q[i], k[: i + 1]) - bias))


def query_key_l2(w, n, i, q, k):
    unit = lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)
    return softmax(w["gain_scale"][n] * unit(k[: i + 1]) @ unit(q[i]))


def temperature(w, n, i, q, k):
    return softmax(k[: i + 1] @ q[i] / w["temperature_scale"][n])


def rms(w, n, i, q, k):
    return softmax(dot(normed(q[i]) * w["query_scale"], normed(k[: i + 1]) * w["key_scale"]))


def layer(w, n, i, q, k):
    return softmax(dot(centred(q[i]) * w["query_scale"], centred(k[: i + 1]) * w["key_scale"]))


def rotary_rms(w, n, i, q, k):
    q, k = (turned(normed(x) * w[f"{name}_scale"], range(T)) for x, name in ((q, "query"), (k, "key")))
    return softmax(dot(q[i], k[: i + 1]))


def within(visible, weights):
    found = np.zeros(len(visible))
    found[visible] = weights
    return found


def sliding_window(w, n, i, q, k):
    visible = np.arange(i + 1) >= i - W
    return within(visible, softmax(dot(q[i], k[: i + 1][visible])))


def sliding_window_rotary(w, n, i, q, k):
    return sliding_window(w, n, i, turned(q, range(T)), turned(k, range(T)))


def streaming(w, n, i, q, k):
    """Two sinks. Once the cache of 2 + W + 1 places is full, the keys are at its places 0, 1, 2, ..."""
    j = np.arange(i + 1)
    visible = (j < 2) | (j >= i - W)
    keys = k[: i + 1][visible]
    query = turned(q[i : i + 1], [len(keys) - 1])[0]
    return within(visible, softmax(dot(query, turned(keys, range(len(keys))))))


def block_local(w, n, i, q, k):
    visible = np.arange(i + 1) // 4 == i // 4
    return within(visible, softmax(dot(q[i], k[: i + 1][visible])))


def transformer_xl(w, n, i, q, k):
    distance, u, v = i - np.arange(i + 1), w["content_bias"][n], w["position_bias"][n]
    angle = distance[:, None] / 10000.0 ** (np.arange(0, D, 2) / D)
    R = np.stack([np.sin(angle), np.cos(angle)], -1).reshape(i + 1, -1)[:, :D]
    r = R @ w["relative.kernel"][:, n * H : n * H + H]
    return softmax((k[: i + 1] @ (q[i] + u) + r @ (q[i] + v)) / np.sqrt(H))


#: Name -> (kind, settings, oracle).
CASES = {
    "sink": ("sink", {}, sink),
    "softcap": ("softcap", {"cap": 1.5}, softcap),
    "sigmoid": ("sigmoid", {"max_length": LONGEST}, sigmoid),
    "sigmoid_learned": ("sigmoid", {"max_length": LONGEST, "learned_bias": True}, sigmoid),
    "query_key_l2": ("query_key_l2", {"typical_length": 5}, query_key_l2),
    "temperature": ("temperature", {}, temperature),
    "rms": ("standard", {"query_key_norm": "rms"}, rms),
    "layer": ("standard", {"query_key_norm": "layer"}, layer),
    "rotary_rms": ("rotary", {"query_key_norm": "rms"}, rotary_rms),
    "sliding_window": ("sliding_window", {"window": W}, sliding_window),
    "sliding_window_rotary": ("sliding_window_rotary", {"window": W}, sliding_window_rotary),
    "streaming": ("streaming", {"num_sinks": 2, "window": W}, streaming),
    "block_local": ("block_local", {"block_size": 4}, block_local),
    "transformer_xl": ("transformer_xl", {}, transformer_xl),
}


def made(kind, settings, family="causal_attention"):
    """(structure, float64 parameters) of a layer."""
    structure, shapes, _ = abstract(lambda rngs: lookup(family, kind)(**SIZES, **settings, rngs=rngs))
    rng = np.random.default_rng(4)
    return structure, {name: rng.standard_normal(p.shape) * 0.7 for name, p in shapes.items()}


def forward(structure, parameters, x, **given):
    narrow = {name: jnp.float32(p) for name, p in parameters.items()}
    return jax.jit(lambda p, x: structure.merge(p)(x, is_causal=True, **given))(narrow, jnp.float32(x))


def by_heads(w, name, x, heads):
    return (x @ w[f"{name}.kernel"] + w[f"{name}.bias"]).reshape(*x.shape[:2], heads, H)


@pytest.mark.parametrize("case", CASES)
def test_a_layer_is_its_equation(case):
    """With two key heads for six query heads; the weights are those of the equation, too."""
    kind, settings, oracle = CASES[case]
    structure, w = made(kind, {**settings, "num_key_value_heads": K})
    x = np.random.default_rng(5).standard_normal((B, T, D))
    q, k, v = (by_heads(w, name, x, heads) for name, heads in (("query", N), ("key", K), ("value", K)))
    weights, context = np.zeros((B, N, T, T)), np.zeros((B, T, N, H))
    for b, n, i in np.ndindex(B, N, T):
        group = n // (N // K)
        weights[b, n, i, : i + 1] = oracle(w, n, i, q[b, :, n], k[b, :, group])
        context[b, i, n] = weights[b, n, i] @ v[b, :, group]
    y, aux = forward(structure, w, x)
    np.testing.assert_allclose(aux["attention_weights"], weights, rtol=1e-4, atol=2e-5)
    want = context.reshape(B, T, N * H) @ w["output.kernel"] + w["output.bias"]
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("gate_by", ["element", "head"])
def test_the_gate_multiplies_the_contexts(gate_by):
    structure, w = made("gated", {"gate_by": gate_by})
    x = np.random.default_rng(5).standard_normal((B, T, D))
    q, k, v = (by_heads(w, name, x, N) for name in ("query", "key", "value"))
    gate = (1 / (1 + np.exp(-x @ w["gate.kernel"]))).reshape(B, T, N, -1)
    context = np.zeros((B, T, N, H))
    for b, n, i in np.ndindex(B, N, T):
        context[b, i, n] = gate[b, i, n] * (softmax(dot(q[b, i, n], k[b, : i + 1, n])) @ v[b, : i + 1, n])
    y, _ = forward(structure, w, x)
    want = context.reshape(B, T, N * H) @ w["output.kernel"] + w["output.bias"]
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["mean", "max", "convolved"])
def test_linformers_with_cells_are_their_equations(kind):
    """Cells of 4 positions: 4 + 4 + 3, in a row that has 9 positions and padding."""
    settings = {"cell_width": 4} if kind == "convolved" else {"cell_width": 4, "pooling": kind}
    name = "linformer_convolved" if kind == "convolved" else "linformer_pooled"
    structure, w = made(name, settings, "encoder_attention")
    x = np.random.default_rng(5).standard_normal((B, T, D))
    real = np.arange(T) < 9
    q, k, v = (by_heads(w, one, x, N) for one in ("query", "key", "value"))

    def cells(x, taps):
        found = []
        for first in range(0, 9, 4):
            part = x[first : min(first + 4, 9)]
            weighted = {"mean": part.mean(0), "max": part.max(0)}
            found.append(weighted[kind] if taps is None else (part * taps[: len(part)]).sum(0))
        return np.array(found)

    context = np.zeros((B, T, N, H))
    for b, n, i in np.ndindex(B, N, T):
        keys, values = (cells(x[b, :, n], w.get(f"{one}_taps")) for x, one in ((k, "key"), (v, "value")))
        context[b, i, n] = softmax(dot(q[b, i, n], keys)) @ values
    narrow = {one: jnp.float32(p) for one, p in w.items()}
    mask = jnp.asarray(np.broadcast_to(real, (B, 1, 1, T)))
    y, aux = jax.jit(lambda p, x: structure.merge(p)(x, mask=mask))(narrow, jnp.float32(x))
    want = context.reshape(B, T, N * H) @ w["output.kernel"] + w["output.bias"]
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)
    assert ("attention_weights" in aux) == (kind != "max")


def test_differential_attention_is_its_equation():
    structure, w = made("differential", {})
    x = np.random.default_rng(5).standard_normal((B, T, D))
    q, k, v = (by_heads(w, name, x, N) for name in ("query", "key", "value"))
    initial = 0.8 - 0.6 * np.exp(-0.3 * DEPTH)
    first, second = np.exp((w["lambda_query"] * w["lambda_key"]).sum(-1))
    half, contexts = H // 2, np.zeros((B, T, N, H))
    for b, n, i in np.ndindex(B, N, T):
        one, two = (
            softmax(k[b, : i + 1, n, part] @ q[b, i, n, part] / np.sqrt(half))
            for part in (slice(0, half), slice(half, H))
        )
        y = (one - (first - second + initial) * two) @ v[b, : i + 1, n]
        contexts[b, i, n] = (1 - initial) * w["gain_scale"] * y / np.sqrt((y**2).mean() + 1e-5)
    y, _ = forward(structure, w, x, depth=jnp.int32(DEPTH))
    want = contexts.reshape(B, T, N * H) @ w["output.kernel"] + w["output.bias"]
    np.testing.assert_allclose(y, want, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("latent_queries", [False, True])
def test_latent_attention_is_its_equations(latent_queries):
    wide = 3
    settings = {"latent_width": R, "rotary_width": P, "value_head_width": wide}
    structure, w = made("latent", {**settings, "query_latent_width": 8 if latent_queries else None})
    x = np.random.default_rng(5).standard_normal((B, T, D))
    source = x
    if latent_queries:
        source = normed(x @ w["query_latent.kernel"]) * w["query_latent_scale"]
    queries = (source @ w["query.kernel"]).reshape(B, T, N, H + P)
    latent = normed(x @ w["latent.kernel"]) * w["latent_scale"]
    keys = (latent @ w["key.kernel"]).reshape(B, T, N, H)
    values = (latent @ w["value.kernel"]).reshape(B, T, N, wide)
    context = np.zeros((B, T, N, wide))
    for b, n, i in np.ndindex(B, N, T):
        shared = turned(x[b] @ w["rotated_key.kernel"], range(T))
        rotated = turned(queries[b, :, n, H:], range(T))
        logits = keys[b, : i + 1, n] @ queries[b, i, n, :H] + shared[: i + 1] @ rotated[i]
        context[b, i, n] = softmax(logits / np.sqrt(H + P)) @ values[b, : i + 1, n]
    y, _ = forward(structure, w, x)
    np.testing.assert_allclose(y, context.reshape(B, T, -1) @ w["output.kernel"], rtol=1e-4, atol=1e-4)


def test_the_values_of_latent_attention_as_cached():
    structure, w = made("latent", {"latent_width": R, "rotary_width": P})
    cache = jax.eval_shape(lambda p: structure.merge(p).start(B, T, jnp.float32), w)
    assert sum(x.size for x in jax.tree.leaves(cache)) == B * T * (R + P)


@pytest.mark.parametrize(("kind", "places"), [("sliding_window", W + 1), ("streaming", 2 + W + 1), ("block_local", 4)])
def test_the_cache_of_a_window_does_not_grow(kind, places):
    settings = next(settings for name, settings, _ in CASES.values() if name == kind)
    structure, w = made(kind, {**settings, "num_key_value_heads": K})

    def size(length):
        cache = jax.eval_shape(lambda p: structure.merge(p).start(B, length, jnp.float32), w)
        return sum(x.size for x in jax.tree.leaves(cache))

    assert size(50) == size(1000) == 2 * B * places * K * H


@pytest.mark.slow
def test_a_position_of_an_encoder_may_be_hidden_from_itself():
    structure, w = made("temperature", {"masks_diagonal": True}, "encoder_attention")
    x = jnp.ones((1, 3, D))
    weights = structure.merge({n: jnp.float32(p) for n, p in w.items()})(x)[1]["attention_weights"]
    np.testing.assert_allclose(weights[0, 0], (1 - np.eye(3)) / 2, atol=1e-6)
    with pytest.raises(ConfigError, match="masks_diagonal: a decoder's first position would see no key"):
        forward(structure, w, x)


def test_settings_that_are_refused():
    for kind, settings, message in (
        ("query_key_l2", {"typical_length": 1}, "typical_length: expected at least 2, got 1"),
        ("latent", {"latent_width": 4, "rotary_width": 3}, "rotary_width: expected an even number, got 3"),
    ):
        with pytest.raises(ConfigError, match=message):
            made(kind, settings)
    structure, w = made("streaming", {"window": 1})
    with pytest.raises(ValueError, match="streaming attention takes only a key mask"):
        forward(structure, w, np.ones((1, 3, D)), mask=jnp.ones((1, 1, 3, 3), bool))
    structure, w = made("sinkhorn", {"block_size": 2, "max_length": 4})
    with pytest.raises(ValueError, match="Sinkhorn: 5 positions are 3 blocks; expected at most 2 blocks"):
        forward(structure, w, np.ones((1, 5, D)))


def sinkhorn_blocks(w, k):
    """The sorting matrix of one key head, [C C]: row b has the weights of the blocks before b."""
    size, count = 3, -(-T // 3)
    sums = np.array([k[size * b : size * b + size].sum(0) for b in range(count)])
    before = np.cumsum(sums, 0) - sums
    return before @ w["sort.kernel"][:, :count]


def test_causal_sinkhorn_reads_no_block_of_the_future():
    """The scores of block b do not change with keys of block b or later, which those of the encoder's layer do."""
    structure, w = made("sinkhorn", {"block_size": 3, "max_length": LONGEST, "iterations": 3})
    narrow = {name: jnp.float32(p) for name, p in w.items()}
    k = np.random.default_rng(6).standard_normal((B, T, N, H))
    scores = structure.merge(narrow).scores(jnp.float32(k), None)
    for b, n in np.ndindex(B, N):
        np.testing.assert_allclose(scores[b, n], sinkhorn_blocks(w, k[b, :, n]), rtol=1e-4, atol=1e-4)
