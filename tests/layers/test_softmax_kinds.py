"""Kinds around the softmax: each layer is its kernel on projections that NumPy computes from the parameters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.errors import ConfigError
from attention_research.kernels import dot_product_attention, rms_norm, rotary
from attention_research.kernels.masks import segment_mask
from attention_research.kernels.positions import (
    contextual_attention,
    dynamic_ntk_frequencies,
    fire_bias,
    kerple_distance_bias,
    longrope_frequencies,
    longrope_magnitude,
    xpos,
    yarn_rotary,
)
from attention_research.kernels.variants import (
    entmax15_attention,
    entmax_attention,
    forgetting_attention,
    indexed_attention,
    length_scaled_attention,
    moba_attention,
    multi_token_attention,
    native_sparse_attention,
    path_attention,
    position_scaled_attention,
    selective_attention,
    sparsemax_attention,
    stick_breaking_attention,
    talking_heads_attention,
    tensor_product_attention,
    without_own_value,
)
from attention_research.layers.structure import abstract
from attention_research.registry import FAMILIES, lookup
from tests.layers.state_kinds import STATE_KINDS
from tests.models.causal_kinds import CAUSAL_KINDS

B, T, D, N, H = 2, 7, 11, 6, 4
SEGMENTS = jnp.array([[1, 1, 1, 2, 2, 2, 0], [1, 1, 1, 1, 1, 0, 0]])
MASK = segment_mask(SEGMENTS, SEGMENTS)
CAUSAL = {"is_causal": True}
PLACES = jnp.arange(T, dtype=jnp.int32)
softplus, sigmoid = jax.nn.softplus, jax.nn.sigmoid


class Parts:
    """The parameters of a layer by name, and its projections of x."""

    def __init__(self, parameters, x):
        self.p, self.x = parameters, x

    def __getitem__(self, name):
        return self.p[name]

    def of(self, name, *shape):
        y = self.x @ self.p[f"{name}.kernel"]
        y = y + self.p[f"{name}.bias"] if f"{name}.bias" in self.p else y
        return y.reshape(B, T, *shape)

    @property
    def qkv(self):
        return tuple(self.of(name, N, H) for name in ("query", "key", "value"))


def fire(w):
    scalars = w["slope_scale"], 2.5 * w["threshold_scale"]
    bias = fire_bias(*scalars, w["hidden_scale"], w["hidden_bias"], w["bias_kernel"], T, T, MASK)
    return dot_product_attention(*w.qkv, bias, MASK, **CAUSAL)


def kerple(form):
    def expected(w):
        r1, r2 = softplus(w["r1_scale"]), w["r2_scale"]
        r2 = softplus(r2) if form == "log" else 2 * sigmoid(r2)
        bias = kerple_distance_bias(r1, r2, T, T, form=form)
        return dot_product_attention(*w.qkv, mask=MASK, distance_bias=bias, **CAUSAL)

    return expected


def clipped(keys=False):
    """The logits with a bias for each distance of at most 3, and with Shaw's vectors for keys."""
    at = np.clip(np.arange(T)[None] - np.arange(T)[:, None], -3, 3) + 3

    def expected(w):
        bias = jnp.moveaxis(w["distance_table"][at], 2, 0)[None]
        if keys:
            bias = bias + jnp.einsum("BTNH,TSH->BNTS", w.qkv[0], w["key_table"][at]) / H**0.5
        return dot_product_attention(*w.qkv, bias, MASK, **CAUSAL)

    return expected


def turned(turn):
    def expected(w):
        query, key, value = w.qkv
        return dot_product_attention(turn(query), turn(key), value, mask=MASK, **CAUSAL)

    return expected


def xpos_attention(w):
    query, key, value = w.qkv
    return dot_product_attention(*xpos(query, key, scale_base=3.0), value, mask=MASK, **CAUSAL)


def exclusive(w):
    return without_own_value(dot_product_attention(*w.qkv, mask=MASK, **CAUSAL), w.qkv[2])


def forgetting_pro(w):
    query, key, value = w.qkv
    same = jnp.pad(SEGMENTS, [(0, 0), (1, 0)])[:, :T] == SEGMENTS

    def shifted(x, name):
        share = sigmoid(w.of(name, N, 1))
        before = jnp.where(same[..., None, None], jnp.roll(x, 1, axis=1), 0.0)
        return share * before + (1 - share) * x

    query, key = rms_norm(query, w["query_scale"]), rms_norm(shifted(key, "key_shift"), w["key_scale"])
    value, log_forget = shifted(value, "value_shift"), jax.nn.log_sigmoid(w.of("forget", N))
    context = rms_norm(forgetting_attention(query, key, value, log_forget, MASK), w["norm_scale"])
    return context * sigmoid(w.of("gate", N, H))


def indexed(w, turn=lambda x: x):
    keys = w.of("index_key", 3)
    keys = (keys - keys.mean(-1, keepdims=True)) / jnp.sqrt(keys.var(-1, keepdims=True) + 1e-6)
    keys = keys * w["index_norm.scale"] + w["index_norm.bias"]
    index = turn(w.of("index_query", 2, 3)), turn(keys[:, :, None])[:, :, 0], w.of("index_share", 2)
    return indexed_attention(*w.qkv, *index, MASK, top_k=2)


def first_pair_turned(x):
    """The first two features, rotated by their position in the row."""
    angle = np.arange(T, dtype=np.float32)[:, None]
    cos, sin = np.cos(angle), np.sin(angle)
    return jnp.stack([x[..., 0] * cos - x[..., 1] * sin, x[..., 0] * sin + x[..., 1] * cos, x[..., 2]], axis=-1)


def path(w, forgets=False):
    x = w.x @ w["direction_down.kernel"] @ w["direction_up.kernel"]
    window = jnp.pad(x, [(0, 0), (2, 0), (0, 0)])
    y = jnp.zeros_like(x)
    for tap in range(3):
        same = jnp.pad(SEGMENTS, [(0, 0), (2, 0)])[:, tap : tap + T] == SEGMENTS
        y = y + w["convolution.filter_kernel"][:, tap] * jnp.where(same[..., None], window[:, tap : tap + T], 0.0)
    y = jax.nn.silu(y).reshape(B, T, N, H)
    direction = y / jnp.sqrt((y * y).sum(-1, keepdims=True) + 1e-6)
    log_forget = jax.nn.log_sigmoid(w.of("forget", N)) if forgets else None
    return path_attention(*w.qkv, direction, 2 * sigmoid(w.of("beta", N)), log_forget, MASK)


def multi_token(w):
    shares = w.p.get("share_scale")
    context = multi_token_attention(*w.qkv, w["score_scale"], shares, weight_groups=w.p.get("weight_scale"), mask=MASK)
    context = rms_norm(context, w["norm_scale"])
    return context * sigmoid(context @ w["gate.kernel"])


def tensor_product(w):
    turn = lambda x: rotary(x.reshape(B, T, -1, H), PLACES)
    ranks = {"query": 3, "key": 2, "value": 2}
    factors = {name: w.of(f"{name}_factors", rank, N) for name, rank in ranks.items()}
    features = {name: w.of(f"{name}_features", rank, H) for name, rank in ranks.items()}
    features = {name: x if name == "value" else turn(x) for name, x in features.items()}
    return tensor_product_attention(*(y for name in ranks for y in (factors[name], features[name])), MASK, **CAUSAL)


def dynamic(x):
    return rotary(x, PLACES, frequency=dynamic_ntk_frequencies(H, factor=4.0, length=T, original_length=5))


def longrope(x):
    return rotary(x, PLACES, frequency=longrope_frequencies(H, (2.0, 3.0)), magnitude=longrope_magnitude(4.0, 5))


_LONGER = {"factor": 4.0, "original_length": 5}
_DIVISORS = {"short_divisors": (1.0, 1.0), "long_divisors": (2.0, 3.0)}
#: Test id, "kind" or "kind:name" -> (settings, the contexts of the heads from the parts).
KINDS = {
    "sparsemax": ({}, lambda w: sparsemax_attention(*w.qkv, MASK, **CAUSAL)),
    "entmax15": ({}, lambda w: entmax15_attention(*w.qkv, MASK, **CAUSAL)),
    "entmax": ({}, lambda w: entmax_attention(*w.qkv, 1 + sigmoid(w["alpha_scale"]), MASK, **CAUSAL)),
    "talking_heads": (
        {},
        lambda w: talking_heads_attention(*w.qkv, w["score_scale"], w["weight_scale"], MASK, **CAUSAL),
    ),
    "length_scaled": (
        {"max_length": T},
        lambda w: length_scaled_attention(*w.qkv, w["length_scale"], MASK, **CAUSAL),
    ),
    "position_scaled": (
        {"interval": 2, "strength": 0.5},
        lambda w: position_scaled_attention(*w.qkv, MASK, interval=2, strength=0.5, **CAUSAL),
    ),
    "exclusive": ({}, exclusive),
    "tensor_product": ({"query_rank": 3, "rank": 2}, tensor_product),
    "relative_bias": ({"max_distance": 3}, clipped()),
    "relative_keys_bias": ({"max_distance": 3}, clipped(keys=True)),
    "kerple": ({}, kerple("log")),
    "kerple:power": ({"form": "power"}, kerple("power")),
    "scaled_rotary": (_LONGER, turned(lambda x: yarn_rotary(x, PLACES, **_LONGER))),
    "scaled_rotary:dynamic": ({**_LONGER, "method": "dynamic"}, turned(dynamic)),
    "scaled_rotary:longrope": ({**_LONGER, **_DIVISORS, "method": "longrope"}, turned(longrope)),
    "stick_breaking": ({}, lambda w: stick_breaking_attention(*w.qkv, MASK)),
    "stick_breaking:current": (
        {"attend_current": True},
        lambda w: stick_breaking_attention(*w.qkv, MASK, attend_current=True),
    ),
    "forgetting": ({}, lambda w: forgetting_attention(*w.qkv, jax.nn.log_sigmoid(w.of("forget", N)), MASK)),
    "forgetting_pro": ({}, forgetting_pro),
    "fire": ({"bias_width": 5, "threshold": 2.5}, fire),
    "contextual": (
        {"num_positions": 3},
        lambda w: contextual_attention(*w.qkv, w["position_table"], MASK, **CAUSAL),
    ),
    "xpos": ({"scale_base": 3.0}, xpos_attention),
    "path": ({"direction_rank": 5}, path),
    "path:forgetting": ({"direction_rank": 5, "forgets": True}, lambda w: path(w, forgets=True)),
    "multi_token:twice": ({"query_taps": 2, "key_taps": 3, "convolve_weights": True}, multi_token),
    "multi_token": ({"query_taps": 3, "key_taps": 2, "head_group": 3}, multi_token),
    "selective": ({}, lambda w: selective_attention(*w.qkv, MASK)),
    "moba": ({"block_size": 2, "top_k": 1}, lambda w: moba_attention(*w.qkv, MASK, block_size=2, top_k=1)),
    "native_sparse": (
        {"block_size": 2, "num_blocks": 1, "window": 1},
        lambda w: native_sparse_attention(
            *w.qkv, sigmoid(w.of("gate", N, 3)), MASK, block_size=2, num_blocks=1, window=1
        ),
    ),
    "indexed": ({"top_k": 2, "num_index_heads": 2, "index_width": 3}, indexed),
    "indexed:rotary": (
        {"top_k": 2, "num_index_heads": 2, "index_width": 3, "index_rotary_width": 2},
        lambda w: indexed(w, first_pair_turned),
    ),
}
FAST = ("entmax", "forgetting", "path")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in KINDS]
)
def test_a_layer_is_its_kernel_on_its_projections(name):
    settings, expected = KINDS[name]
    target = lookup("causal_attention", name.split(":")[0])
    sizes = {"width": D, "num_heads": N, "head_width": H, **settings}
    structure, shapes, _ = abstract(lambda rngs: target(**sizes, rngs=rngs))
    rng = np.random.default_rng(0)
    parameters = {one: jnp.float32(rng.standard_normal(p.shape) / 2) for one, p in shapes.items()}
    x = jnp.float32(rng.standard_normal((B, T, D)))

    @jax.jit
    def both(parameters, x):
        y, aux = structure.merge(parameters)(x, mask=MASK, is_causal=True)
        context = expected(Parts(parameters, x)).reshape(B, T, -1)
        return y, context @ parameters["output.kernel"] + parameters["output.bias"], aux["attention_weights"]

    y, wanted, weights = both(parameters, x)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=2e-5)
    hidden = ~(np.asarray(MASK) & np.tri(T, dtype=bool))
    assert weights.shape == (B, N, T, T) and not np.any(np.where(hidden, weights, 0))


@pytest.mark.parametrize("start", [-6.0, -15.0, -17.0, -100.0])
def test_heads_of_entmax_may_learn_the_softmax(start):
    layer = lookup("causal_attention", "entmax")(width=D, num_heads=N, head_width=H, rngs=nnx.Rngs(0))
    layer.alpha_scale[...] = jnp.full((N,), start)
    scores = jnp.float32(2 * np.random.default_rng(0).standard_normal((B, N, T, T)))

    def weights_and_gradient(weigh):
        first = lambda scores: jnp.sum(weigh(scores)[..., 0])
        return jax.jit(lambda scores: (weigh(scores), jax.grad(first)(scores)))(scores)

    found = weights_and_gradient(lambda scores: layer.weigh(scores, None))
    np.testing.assert_allclose(found[0].sum(-1), 1, atol=1e-4)
    for ours, theirs in zip(found, weights_and_gradient(jax.nn.softmax), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.01)


@pytest.mark.slow
def test_the_first_scores_of_scalable_softmax_are_plain_on_average():
    target, sizes = lookup("causal_attention", "length_scaled"), {"width": D, "num_heads": N, "head_width": H}
    scale = jax.jit(lambda: target(**sizes, max_length=1024, rngs=nnx.Rngs(0)).length_scale[...])()
    np.testing.assert_allclose(scale * np.log(np.arange(1, 1025)).mean(), 1, rtol=1e-5)


@pytest.mark.slow
def test_tensor_products_start_as_in_the_released_code():
    """The bounds are PyTorch's, for the arrays of three dimensions that the released code initializes."""
    torch = pytest.importorskip("torch", reason="PyTorch's CPU wheel is for Python 3.11 only")
    target, sizes = lookup("causal_attention", "tensor_product"), {"width": 50, "num_heads": 7, "head_width": 6}
    layer = jax.jit(lambda: target(**sizes, query_rank=3, rank=2, rngs=nnx.Rngs(0)))()
    for name, rank in (("query", 3), ("key", 2), ("value", 2)):
        for part, shape in (("factors", (50, 7, rank)), ("features", (50, rank, 6))):
            inward, outward = torch.nn.init._calculate_fan_in_and_fan_out(torch.empty(shape))
            kernel, bound = getattr(layer, f"{name}_{part}").kernel[...], (6 / (inward + outward)) ** 0.5
            assert kernel.shape == (50, shape[1] * shape[2]) and 0.97 * bound < np.abs(kernel).max() <= bound
    assert not layer.output.kernel[...].any()


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("scaled_rotary", {**_LONGER, "factor": 0.5}, r"factor: expected at least 1, got 0\.5"),
        ("scaled_rotary", {**_LONGER, "method": "longrope"}, "short_divisors: expected 2 numbers, head_width / 2"),
        ("scaled_rotary", {**_LONGER, **_DIVISORS}, "short_divisors: expected none with method yarn, got 2"),
        ("xpos", {"head_width": 3}, "head_width: 3; rotary attention expects an even number"),
        ("multi_token", {"head_group": 4}, "head_group: expected a divisor of num_heads 6, got 4"),
        ("indexed", {"index_width": 2, "index_rotary_width": 4}, "an even number up to index_width 2, got 4"),
    ],
)
def test_mistakes_are_named(kind, settings, message):
    sizes = {"width": D, "num_heads": N, "head_width": H, **settings}
    with pytest.raises(ConfigError, match=message):
        abstract(lambda rngs: lookup("causal_attention", kind)(**sizes, rngs=rngs))


#: Kinds that take a prompt, with their settings. Layers of `t5` and `value_residual` need what other layers hold:
#: `tests/models/test_language_model.py`.
PROMPTED = {name: settings for name, (settings, _) in KINDS.items()} | {
    kind: CAUSAL_KINDS[kind] | ({"max_length": T} if kind == "sigmoid" else {})
    for kind in FAMILIES["prompted_attention"]
    if kind not in {*KINDS, *STATE_KINDS, "hyena", "mamba", "t5", "value_residual"}
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMPTED)
def test_a_prompt_with_padding_on_its_left_and_steps_are_the_whole_row(name):
    """The first three positions at once, of which one row has two of padding, then one position after the other."""
    target, settings = lookup("causal_attention", name.split(":")[0]), PROMPTED[name]
    structure, shapes, _ = abstract(lambda rngs: target(width=D, num_heads=N, head_width=H, **settings, rngs=rngs))
    rng = np.random.default_rng(0)
    parameters = {one: jnp.float32(rng.standard_normal(p.shape) / 2) for one, p in shapes.items()}
    x, real, P = jnp.float32(rng.standard_normal((B, T, D))), jnp.arange(T) >= jnp.array([[0], [2]]), 3

    @jax.jit
    def both(parameters, x):
        layer, mask = structure.merge(parameters), real[:, None, None]
        whole, _ = layer(x, mask=mask, is_causal=True)
        first, cache, _ = layer.prefill(x[:, :P], T, mask=mask[..., :P], is_causal=True)

        def step(cache, i):
            y, cache, _ = layer.step(jax.lax.dynamic_slice_in_dim(x, i, 1, 1), cache, i)
            return cache, y[:, 0]

        _, rest = jax.lax.scan(step, cache, jnp.arange(P, T))
        return whole, jnp.concatenate([first, jnp.moveaxis(rest, 0, 1)], axis=1)

    whole, stepped = (np.asarray(y)[np.asarray(real)] for y in both(parameters, x))
    np.testing.assert_allclose(stepped, whole, rtol=1e-4, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_activations_and_caches_may_be_bfloat16(name):
    settings, _ = KINDS[name]
    target = lookup("causal_attention", name.split(":")[0])
    structure, shapes, _ = abstract(lambda rngs: target(width=D, num_heads=N, head_width=H, **settings, rngs=rngs))
    rng = np.random.default_rng(0)
    parameters = {one: jnp.float32(rng.standard_normal(p.shape) / 2) for one, p in shapes.items()}
    x = jnp.float32(rng.standard_normal((B, T, D)))

    @jax.jit
    def both(parameters, x):
        layer = structure.merge(parameters)
        whole, _ = layer(x, is_causal=True)

        def step(cache, i):
            y, cache, _ = layer.step(jax.lax.dynamic_slice_in_dim(x, i, 1, 1), cache, i)
            return cache, y[:, 0]

        _, stepped = jax.lax.scan(step, layer.start(B, T, x.dtype), jnp.arange(T))
        return whole, jnp.moveaxis(stepped, 0, 1)

    narrow, exact = both(parameters, x.astype(jnp.bfloat16)), both(parameters, x)
    assert {y.dtype for y in narrow} == {jnp.dtype(jnp.bfloat16)}
    if name.split(":")[0] in ("moba", "native_sparse", "indexed"):  # a choice may flip
        assert all(np.isfinite(np.float32(y)).all() for y in narrow)
        return
    for one, other in zip(narrow, exact, strict=True):
        np.testing.assert_allclose(np.float32(one), other, atol=0.06 * np.abs(other).max())
