"""The Long Range Arena's self-attentions: equations in float64 NumPy from dense weights, padding, length, gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels.masks import padding_mask
from attention_research.layers.structure import abstract, initializer
from attention_research.registry import FAMILIES, REFUSED, locate, lookup

B, T, D, N, H, LONGEST = 2, 11, 15, 3, 5, 14
SIZES = {"width": D, "num_heads": N, "head_width": H}
KINDS = {
    "linear": {},
    "performer": {"num_features": 7},
    "block_local": {"block_size": 4},
    "bigbird": {"max_length": LONGEST, "block_size": 2, "global_blocks": 1, "random_blocks": 1},
    "reformer": {"chunk_size": 3, "half_buckets": 2, "num_rounds": 2},
    "sinkhorn": {"max_length": LONGEST, "block_size": 4, "iterations": 3},
    "dot_synthesizer": {"max_length": LONGEST},
}
REAL = np.arange(T) < np.array([[T], [7]])


@functools.cache
def made(kind):
    """(structure, parameters, statistics) of a layer with biases of 0."""
    make = lambda rngs: lookup("encoder_attention", kind)(**SIZES, **KINDS[kind], rngs=rngs)
    parameters, statistics = jax.jit(initializer(make))(jax.random.key(3))
    return abstract(make)[0], parameters, statistics


def softmax(scores, visible):
    scores = np.where(visible, scores, -np.inf)
    e = np.where(visible, np.exp(scores - np.max(scores, axis=-1, keepdims=True, initial=-1e30)), 0)
    return e / np.maximum(e.sum(-1, keepdims=True), 1e-300)


def dot(q, k):
    return np.einsum("btnh,bsnh->bnts", q, k) / np.sqrt(H)


def block_of(kind):
    return np.arange(T) // KINDS[kind]["block_size"]


def linear(module, q, k):
    phi = lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))
    return np.einsum("btnh,bsnh->bnts", phi(q), phi(k)) * REAL[:, None, None]


def performer(module, q, k):
    W = np.asarray(module.features[...], np.float64)
    phi = lambda x: np.exp(x * H**-0.25 @ W.T - (x**2).sum(-1, keepdims=True) / (2 * np.sqrt(H)))
    return np.einsum("btnm,bsnm->bnts", phi(q), phi(k)) * REAL[:, None, None]


def block_local(module, q, k):
    block = block_of("block_local")
    return softmax(dot(q, k), (block[:, None] == block) & REAL[:, None, None])


def bigbird(module, q, k):
    block, drawn = block_of("bigbird"), np.asarray(module.random_blocks[...])
    met = np.abs(block[:, None] - block) <= 1
    for i, j in np.ndindex(T, T):
        met[i, j] |= block[i] == 0 or block[j] == 0 or block[j] in drawn[block[i]]
    return softmax(dot(q, k), met & REAL[:, None, None])


def reformer(module, q, k):
    """Round by round: positions, sorted by bucket with padding last, form chunks.

    A chunk sees itself and the previous chunk. A key counts once even if several rounds show it. A position that sees
    no other keeps its own value.
    """
    size, rotations = KINDS["reformer"]["chunk_size"], np.asarray(module.rotations[...], np.float64)
    scores = dot(q, q / np.linalg.norm(q, axis=-1, keepdims=True))
    weights = np.zeros((B, N, T, T))
    for b, n in np.ndindex(B, N):
        met = np.zeros((T, T), bool)
        for r in range(rotations.shape[1]):
            turned = q[b, :, n] @ rotations[:, r]
            bucket = np.argmax(np.concatenate([turned, -turned], axis=-1), axis=-1)
            order = sorted(range(T), key=lambda t, bucket=bucket, b=b: (not REAL[b, t], bucket[t], t))
            chunk = np.empty(T, int)
            chunk[order] = np.arange(T) // size
            apart = chunk[:, None] - chunk
            met |= (apart == 0) | (apart == 1)
        met &= ~np.eye(T, dtype=bool) & REAL[b]
        weights[b, n] = softmax(scores[b, n], met) + np.diag(~met.any(1) & REAL[b])
    return weights


def sinkhorn(module, q, k):
    """Softmax over the keys of C mixed blocks and the own keys. A mixed key's weight goes to its component keys."""
    size, C = KINDS["sinkhorn"]["block_size"], -(-T // KINDS["sinkhorn"]["block_size"])
    weights, sort = np.zeros((B, N, T, T)), np.asarray(module.sort.kernel[...], np.float64)
    for b, n in np.ndindex(B, N):
        keys = np.zeros((C, size, H))
        there = np.zeros((C, size), bool)
        for j in np.flatnonzero(REAL[b]):
            keys[j // size, j % size], there[j // size, j % size] = k[b, j, n], True
        some = there.any(1)
        S = np.exp(keys.sum(1) @ sort)[:, :C] * some * some[:, None]
        for _ in range(KINDS["sinkhorn"]["iterations"]):
            S = S / np.maximum(S.sum(1, keepdims=True), 1e-300)
            S = S / np.maximum(S.sum(0, keepdims=True), 1e-300)
        for i in range(T):
            mixed = np.einsum("c,cph->ph", S[i // size], keys)
            visible = np.concatenate([there[some].any(0) & some[i // size], there[i // size]])
            row = softmax(np.concatenate([mixed, keys[i // size]]) @ q[b, i, n] / np.sqrt(H), visible)
            for j in range(T):
                weights[b, n, i, j] = S[i // size, j // size] * row[j % size] * REAL[b, j]
                if j // size == i // size:
                    weights[b, n, i, j] += row[size + j % size]
    return weights


def dot_synthesizer(module, q, k):
    return softmax(dot(q, k) + np.asarray(module.table[...])[None, :, :T, :T], REAL[:, None, None])


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_its_equation(kind):
    structure, parameters, statistics = made(kind)
    module = structure.merge(parameters, statistics)
    x = np.random.default_rng(1).standard_normal((B, T, D))
    heads = lambda name: (x @ np.asarray(getattr(module, name).kernel[...], np.float64)).reshape(B, T, N, H)
    q, v = heads("query"), heads("value")
    weights = globals()[kind](module, q, q if kind == "reformer" else heads("key"))
    if kind in ("linear", "performer"):
        weights = weights / weights.sum(-1, keepdims=True)
    context = np.einsum("bnts,bsnh->btnh", weights, v).reshape(B, T, -1)
    run = jax.jit(lambda x: module(x, mask=padding_mask(jnp.asarray(REAL))))
    y, aux = run(jnp.asarray(x, jnp.float32))
    rows = REAL[:, :, None].astype(np.float32)  # outputs of padding queries are not specified
    np.testing.assert_allclose(y * rows, context @ np.asarray(module.output.kernel[...], np.float64) * rows, atol=2e-5)
    np.testing.assert_allclose(aux["attention_weights"] * rows[:, None], weights * rows[:, None], atol=5e-6)


#: The fast tests have their equation, which includes the mask of padding.
SLOW = ("reformer", "sinkhorn", "performer", "linear", "bigbird", "block_local")


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind in SLOW)) for kind in KINDS])
def test_padding_changes_nothing_and_every_parameter_is_used(kind):
    structure, parameters, statistics = made(kind)
    x = jax.random.normal(jax.random.key(0), (B, T, D))
    direction = jax.random.normal(jax.random.key(1), (B, T, D)) * REAL[:, :, None].astype(np.float32)

    @jax.jit
    def run(parameters, x, real):
        def value(parameters, x):
            y, _ = structure.merge(parameters, statistics)(x, mask=padding_mask(real))
            return jnp.sum(y[:, :T] * direction), y

        (_, y), gradients = jax.value_and_grad(value, argnums=(0, 1), has_aux=True)(parameters, x)
        return y, *gradients

    y, by_parameter, by_x = run(parameters, x, jnp.asarray(REAL))
    more = LONGEST - T
    junk = 7.0 * jax.random.normal(jax.random.key(2), (B, more, D))
    longer = jnp.concatenate([jnp.where(REAL[:, :, None], x, 5.0), junk], axis=1)
    again, other, by_longer = run(parameters, longer, jnp.pad(jnp.asarray(REAL), ((0, 0), (0, more))))
    rows = REAL[:, :, None].astype(np.float32)
    np.testing.assert_allclose(again[:, :T] * rows, y * rows, atol=1e-5)
    np.testing.assert_allclose(by_longer[:, :T], by_x, atol=2e-5)
    assert not np.asarray(by_longer[:, T:]).any() and not np.asarray(by_x)[~REAL].any()
    for name, gradient in by_parameter.items():
        np.testing.assert_allclose(gradient, other[name], atol=1e-4, err_msg=name)
        assert np.abs(gradient).max() > 1e-6 or name == "key.bias", f"{name} has no gradient"


@pytest.mark.parametrize("kind", KINDS)
def test_an_encoders_mask_of_keys_is_accepted(kind):
    structure, parameters, statistics = made(kind)
    module, x = structure.merge(parameters, statistics), jnp.ones((B, T, D))
    for wrong in ({"is_causal": True}, {"mask": jnp.ones((B, 1, T, T), bool)}):
        with pytest.raises(ValueError, match=r"takes only a key mask \[B 1 1 S\]"):
            jax.eval_shape(lambda x, wrong=wrong: module(x, **wrong), x)
    for family in ("causal_attention", "cross_attention"):  # refused, or another class
        there = kind in FAMILIES[family]
        assert (locate(family, kind) != locate("encoder_attention", kind)) if there else (family, kind) in REFUSED
    if "max_length" in KINDS[kind]:
        with pytest.raises(ValueError, match="23 positions"):
            jax.eval_shape(module, jnp.ones((B, 23, D)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "dot_synthesizer"])
def test_unused_weights_cost_no_memory(kind):
    """Memory of the output's gradient grows with the length, not with its square."""

    def allocated(length):
        settings = {name: length if name == "max_length" else 32 for name in KINDS[kind] if name.endswith("length")}
        sizes = {"block_size": 32, "chunk_size": 32, "num_features": 16}
        settings |= {name: size for name, size in sizes.items() if name in KINDS[kind]}
        make = lambda rngs: lookup("encoder_attention", kind)(**SIZES, **settings, rngs=rngs)
        structure, parameters, statistics = abstract(make)
        loss = lambda p, s, x: jnp.sum(structure.merge(p, s)(x)[0] ** 2)
        x = jax.ShapeDtypeStruct((1, length, D), jnp.float32)
        return jax.jit(jax.grad(loss)).lower(parameters, statistics, x).compile().memory_analysis().temp_size_in_bytes

    assert allocated(2048) < 2.6 * allocated(1024) and allocated(2048) < N * 2048**2 * 4
