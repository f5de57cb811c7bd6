"""Layers with a state against float64 NumPy: projections, convolutions, gates, norms, and the recurrence of the kernel.

One program for each kind returns all quantities that the tests check.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import schema
from attention_research.kernels.masks import segment_mask
from attention_research.layers.structure import abstract
from attention_research.registry import CAUSAL, CROSS, ENCODER, REFUSED, lookup
from tests.kernels.fenwick import sums_of_levels
from tests.kernels.state_members import elu1, quotients, recurrence, sigmoid, softplus, taylor, unit
from tests.layers.state_kinds import FAST, STATE_KINDS

B, T, D, N = 2, 11, 12, 3
#: Packed examples; 0 is padding.
SEGMENTS = np.array([[1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2], [1, 1, 0, 2, 2, 3, 3, 3, 3, 0, 0]])
#: The number of the layer in its stack, and the number of layers, for decays that depend on them.
DEPTH, LAYERS = 1, 3
#: A prompt with padding on the left, as before a target.
PROMPT = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], bool)


def silu(x):
    return x * sigmoid(x)


def rms(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def heads(x, count=N):
    return x.reshape(len(x), count, -1)


def projections(w, x, segments, activate):
    """Queries, keys and values [T C] of one row, after the convolution."""
    q, k, v = (x @ w[f"{name}.kernel"] + w.get(f"{name}.bias", 0) for name in ("query", "key", "value"))
    joined = np.concatenate([q, k, v], -1)
    if "convolution.filter_kernel" in w:
        kernel, out = w["convolution.filter_kernel"], np.zeros_like(joined)
        for t, tap in np.ndindex(len(x), kernel.shape[1]):
            at = t + tap - kernel.shape[1] + 1
            if at >= 0 and segments[at] == segments[t] != 0:
                out[t] += kernel[:, tap] * joined[at]
        joined = out + w.get("convolution.bias", 0)
    joined = silu(joined) if activate or "convolution.filter_kernel" in w else joined
    return np.split(joined, [q.shape[-1], 2 * q.shape[-1]], -1)


def step_size(w, logits):
    """(log decay, step size) of `StepSize`."""
    size = softplus(logits + w["decay.bias"])
    return -np.repeat(np.exp(w["decay.rate_log"]), size.shape[-1] // N) * size, size


def retnet(w, x, q, k, v):
    q, k = heads(q), heads(k)

    def turn(x):
        half = x.shape[-1] // 2
        angle = np.arange(len(x))[:, None] * 10000.0 ** (-np.arange(half) / half)
        turned = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)[:, None]
        return np.stack([turned.real, turned.imag], -1).reshape(x.shape)

    decay = np.broadcast_to(np.log(1 - 2.0 ** (-5 - np.arange(N))), (len(x), N))
    return {"query": turn(q), "key": turn(k), "value": heads(v), "log_decay": decay, "scale": q.shape[-1] ** -0.5}


def gla(w, x, q, k, v):
    logits = x @ w["decay_down.kernel"] @ w["decay_up.kernel"] + w["decay_up.bias"]
    q = heads(q)
    return {"query": q, "key": heads(k), "value": heads(v), "log_decay": heads(-softplus(-logits) / 16),
            "scale": q.shape[-1] ** -0.5}  # fmt: skip


def mamba2(w, x, q, k, v):
    decay, size = step_size(w, x @ w["step_size.kernel"])
    shared = lambda x: np.repeat(x[:, None], N, 1)
    return {"query": shared(q), "key": shared(k) * size[..., None], "value": heads(v), "log_decay": decay, "scale": 1.0}


def log_linear(w, x, q, k, v):
    logits = (x @ w["level.kernel"]).reshape(len(x), N, -1)
    return {**mamba2(w, x, q, k, v), "level_weights": softplus(w["level_scale"] * logits)}


def deltanet(w, x, q, k, v):
    beta = 2 * sigmoid(x @ w["beta.kernel"])
    q = heads(q)
    return {"query": unit(q), "key": unit(heads(k)), "value": heads(v), "beta": beta, "scale": q.shape[-1] ** -0.5}


def gated_deltanet(w, x, q, k, v):
    given = deltanet(w, x, q, k, v)
    return {**given, "beta": given["beta"] / 2, "log_decay": step_size(w, x @ w["step_size.kernel"])[0]}


def kda(w, x, q, k, v):
    given = deltanet(w, x, q, k, v)
    decay, _ = step_size(w, x @ w["decay_down.kernel"] @ w["decay_up.kernel"])
    return {**given, "beta": given["beta"] / 2, "log_decay": heads(decay)}


def lightning(w, x, q, k, v):
    slope = 2.0 ** (-8 * np.arange(1, N + 1) / N) * (1 - DEPTH / (LAYERS - 1 + 1e-5) + 1e-5)
    return {"query": heads(q), "key": heads(k), "value": heads(v), "log_decay": np.broadcast_to(-slope, (len(x), N)),
            "scale": 1.0}  # fmt: skip


def mlstm(w, x, q, k, v):
    forget = x @ w["forget_gate.kernel"] + w["forget_bias"]
    q = heads(q)
    return {"query": q, "key": heads(k), "value": heads(v), "log_decay": -softplus(-forget), "floor": True,
            "log_scale": x @ w["input_gate.kernel"] + w["input_gate.bias"], "scale": q.shape[-1] ** -0.5}  # fmt: skip


def normalized(w, x, q, k, v, phi):
    q, k = (np.apply_along_axis(phi, -1, heads(one)) for one in (q, k))
    return {"query": q, "key": k, "value": heads(v), "log_scale": np.zeros((len(x), N)), "scale": 1.0, "floor": False}


def linear(w, x, q, k, v):
    return normalized(w, x, q, k, v, elu1)


def based(w, x, q, k, v):
    return normalized(w, x, q, k, v, taylor)


def performer(w, x, q, k, v):
    W = w["directions"]
    root = W.shape[-1] ** -0.25
    return normalized(w, x, q, k, v, lambda x: np.exp(W @ x * root - (x * root) @ (x * root) / 2))


def rwkv7(w, x, q, k, v, segments):
    """The equations of the paper, with its own mixtures of positions instead of q, k and v."""
    before = np.zeros_like(x)
    for t in range(1, len(x)):
        if segments[t] == segments[t - 1] != 0:
            before[t] = x[t - 1]
    x_r, x_w, x_k, x_v, x_a, x_g = (x + mu * (before - x) for mu in w["mix"])
    low = lambda x, name, act: act(x @ w[f"{name}.down_kernel"]) @ w[f"{name}.up_kernel"]
    r, k, v = x_r @ w["query.kernel"], x_k @ w["key.kernel"], x_v @ w["value.kernel"]
    rate = sigmoid(w["rate_bias"] + low(x_a, "rate", lambda x: x))
    kappa = heads(k * w["removal"])
    kappa = kappa / np.linalg.norm(kappa, axis=-1, keepdims=True)
    k = k * (1 + (rate - 1) * w["replacement"])
    decay = -np.exp(-0.5) * sigmoid(w["decay_bias"] + low(x_w, "decay", np.tanh))
    return {"query": heads(r), "key": heads(k), "value": heads(v), "log_decay": heads(decay), "read": -kappa,
            "write": kappa * heads(rate), "scale": 1.0, "gate": low(x_g, "gating", sigmoid)}  # fmt: skip


def finished(kind, w, x, given, context):
    """The output of the layer from the outputs of the heads [T N Hv]."""
    T, bias = len(x), w.get("output.bias", 0)
    if kind in ("mamba2", "log_linear"):
        y = (context + w["skip"][:, None] * given["value"]).reshape(T, -1)
        return rms(y * silu(x @ w["gate.kernel"])) * w["norm_scale"] @ w["output.kernel"] + bias
    if kind == "rwkv7":
        centred = context - context.mean(-1, keepdims=True)
        y = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 64e-5)).reshape(T, -1)
        bonus = (given["query"] * given["key"] * heads(w["bonus"][None])).sum(-1, keepdims=True) * given["value"]
        y = y * w["norm_scale"] + w["norm_bias"] + bonus.reshape(T, -1)
        return y * given["gate"] @ w["output.kernel"]
    if kind == "lightning":
        y = rms(context.reshape(T, -1)) * w["norm_scale"]
        return y * sigmoid(x @ w["gate.kernel"]) @ w["output.kernel"] + bias
    if kind == "mlstm":
        y = (rms(context) * w["norm_scale"]).reshape(T, -1)
        return y * sigmoid(x @ w["gate.kernel"]) @ w["output.kernel"] + bias
    if "norm_scale" not in w:
        return context.reshape(T, -1) @ w["output.kernel"] + bias
    y = (rms(context) * w["norm_scale"]).reshape(T, -1)
    if "gate.kernel" in w:
        y = y * silu(x @ w["gate.kernel"])
    if "gate_up.kernel" in w:
        y = y * sigmoid(x @ w["gate_down.kernel"] @ w["gate_up.kernel"] + w["gate_up.bias"])
    return y @ w["output.kernel"] + bias


MEMBERS = {
    one.__name__: one
    for one in (retnet, gla, mamba2, deltanet, gated_deltanet, kda, lightning, mlstm, rwkv7, based, linear, performer)
} | {"log_linear": log_linear}
ACTIVATED = ("deltanet", "gated_deltanet", "kda", "lightning")
#: The numbers that a layer keeps: of the state [N H Hv], and of the inputs of the convolution [W - 1, 2 N H + N Hv].
KEPT = {
    "retnet": N * 4 * 8,
    "gla": N * 2 * 4,
    "mamba2": N * 5 * 8 + 3 * (2 * 5 + N * 8),
    "log_linear": 5 * N * 5 * 8 + 3 * (2 * 5 + N * 8),
    "deltanet": N * 4 * 4 + 3 * 3 * N * 4,
    "gated_deltanet": N * 4 * 8 + 2 * (2 * N * 4 + N * 8),
    "kda": N * 4 * 4 + 3 * 3 * N * 4,
    "lightning": N * 4 * 4,
    "mlstm": N * 2 * (4 + 1) + N,
    "rwkv7": N * 4 * 4 + D,
    "based": N * 13 * (4 + 1) + N,
    "linear": N * 4 * (4 + 1) + N,
    "performer": N * 7 * (4 + 1) + N,
}


def oracle(kind, w, x, segments):
    """(output, weights [N T T]) of one row."""
    split = projections(w, x, segments, kind in ACTIVATED)
    given = MEMBERS[kind](w, x, *split, *([segments] if kind == "rwkv7" else []))
    real, reset = segments != 0, np.append(True, segments[1:] != segments[:-1])
    if "level_weights" in given:
        run = lambda given, *where: sums_of_levels(given, given["level_weights"], *where)[0]
    else:
        run = quotients if "log_scale" in given else lambda *given: recurrence(*given)[0]
    rows = np.broadcast_to(np.eye(len(x))[:, None], (len(x), N, len(x)))
    context, weights = run(given, real, reset), run({**given, "value": rows}, real, reset)
    return finished(kind, w, x, given, context), weights.swapaxes(0, 1)


def layer(kind, settings=None):
    """(structure, parameters as float64 NumPy) of a small layer."""
    settings = {"width": D, "num_heads": N, "head_width": None, **(STATE_KINDS[kind] if settings is None else settings)}
    target = lookup(CAUSAL, kind)
    inherited = {"num_layers": LAYERS, "max_length": T}
    settings |= {name: inherited[name] for name in inherited.keys() & schema.signature(CAUSAL, kind).keys()}
    structure, shapes, statistics = abstract(lambda rngs: target(**settings, rngs=rngs))
    shapes = {**shapes, **statistics}
    random = np.random.default_rng(1)
    value = lambda name, x: random.standard_normal(x.shape) * (x.shape or (1,))[0] ** -0.5 + name.endswith("scale")
    return structure, {name: value(name, x) for name, x in sorted(shapes.items())}


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=[] if kind in FAST else [pytest.mark.slow]) for kind in STATE_KINDS],
)
def found(request):
    """The quantities that the tests check, by one program."""
    kind = request.param
    structure, w = layer(kind)
    x = np.random.default_rng(2).standard_normal((B, T, D))

    @jax.jit
    def everything(p, x):
        module, depth = structure.merge(p), jnp.asarray(DEPTH, jnp.int32)
        packed, aux = module(
            x, mask=segment_mask(jnp.asarray(SEGMENTS), jnp.asarray(SEGMENTS)), is_causal=True, depth=depth
        )
        real = jnp.concatenate([jnp.asarray(PROMPT), jnp.ones((B, T - 5), bool)], 1)
        whole, _ = module(x, mask=real[:, None, None], is_causal=True, depth=depth)
        seen = jnp.asarray(PROMPT)[:, None, None]
        prompt, cache, _ = module.prefill(x[:, :5], T, mask=seen, is_causal=True, depth=depth)

        def step(carry, now):
            cache, index = carry
            y, cache, _ = module.step(now[:, None], cache, index, depth=depth)
            return (cache, index + 1), y[:, 0]

        _, rest = jax.lax.scan(step, (cache, jnp.asarray(5, jnp.int32)), x[:, 5:].swapaxes(0, 1))
        narrow, _ = module(x.astype(jnp.bfloat16), is_causal=True)
        wide, _ = module(x, is_causal=True)
        return {"packed": packed, "weights": aux["attention_weights"], "whole": whole, "prompt": prompt,
                "rest": rest.swapaxes(0, 1), "narrow": narrow, "wide": wide}  # fmt: skip

    return kind, w, x, everything({name: jnp.float32(p) for name, p in w.items()}, jnp.float32(x)), structure


@pytest.mark.slow
def test_packed_rows_are_the_equation(found):
    kind, w, x, got, _ = found
    assert_is_the_equation(kind, w, x, got["packed"], got["weights"])


def assert_is_the_equation(kind, w, x, packed, given_weights):
    for row in range(B):
        want, weights = oracle(kind, w, x[row], SEGMENTS[row])
        real = SEGMENTS[row] != 0
        np.testing.assert_allclose(packed[row][real], want[real], atol=2e-5)
        np.testing.assert_allclose(given_weights[row][:, real], weights[:, real], atol=1e-5)


#: Widths that differ from the head width and from each other, a convolution of two taps, and biases.
_OTHER = {"key_head_width": 3, "value_head_width": 5, "convolution_width": 2, "use_bias": True}
UNUSUAL = {
    "retnet": {**_OTHER, "key_head_width": 2},
    "gla": {**_OTHER, "decay_rank": 2},
    "kda": {**_OTHER, "rank": 2},
    "deltanet": {**_OTHER, "negative_eigenvalues": True},
    "rwkv7": {"key_head_width": 3, "value_head_width": 5, "rank": 2, "gate_rank": 3, "value_rank": 2},
    "based": {**_OTHER, "key_head_width": 2},
    "linear": {**_OTHER, "use_bias": False},
    "performer": {**_OTHER, "use_bias": False, "num_features": 5},
    **{kind: _OTHER for kind in ("mamba2", "log_linear", "gated_deltanet", "lightning", "mlstm")},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", STATE_KINDS)
def test_a_layer_with_other_widths_is_the_equation(kind):
    structure, w = layer(kind, UNUSUAL[kind])
    x, mask = np.random.default_rng(2).standard_normal((B, T, D)), segment_mask(*2 * [jnp.asarray(SEGMENTS)])
    run = jax.jit(lambda p, x: structure.merge(p)(x, mask=mask, is_causal=True, depth=jnp.int32(DEPTH)))
    packed, aux = run({name: jnp.float32(p) for name, p in w.items()}, jnp.float32(x))
    assert_is_the_equation(kind, w, x, packed, aux["attention_weights"])


def test_a_prompt_with_padding_and_steps_are_the_whole(found):
    got, real = found[3], PROMPT
    np.testing.assert_allclose(got["prompt"][real], got["whole"][:, :5][real], atol=1e-5)
    np.testing.assert_allclose(got["rest"], got["whole"][:, 5:], atol=1e-5)


def test_bfloat16_keeps_the_state_in_float32(found):
    got = found[3]
    assert got["narrow"].dtype == jnp.bfloat16
    np.testing.assert_allclose(np.float32(got["narrow"]), got["wide"], atol=0.1 * np.abs(got["wide"]).max())


def test_the_cache_has_the_documented_size(found):
    kind, _, _, _, structure = found
    cache = lambda length: jax.eval_shape(lambda p: structure.merge(p).start(1, length, jnp.bfloat16), layer(kind)[1])
    if kind == "log_linear":
        with pytest.raises(ValueError, match=f"12 positions are more than its max_length {T}"):
            cache(T + 1)
    else:
        assert jax.tree.map(jnp.shape, cache(T)) == jax.tree.map(jnp.shape, cache(10**6))
    floats = lambda cache: [x for x in jax.tree.leaves(cache) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert sum(leaf.size for leaf in floats(cache(T))) == KEPT[kind]
    assert all(leaf.dtype == jnp.float32 for leaf in floats(cache(T)["state"]))


def test_encoders_and_cross_attention_are_refused_with_the_reason():
    for kind in STATE_KINDS.keys() - {"linear", "performer"}:  # these are defined in encoders too
        assert "earlier positions" in REFUSED[ENCODER, kind] and "source" in REFUSED[CROSS, kind]


@pytest.mark.parametrize("kind", STATE_KINDS)
def test_a_call_without_causality_is_refused(kind):
    structure, w = layer(kind)
    call = lambda p, x, **given: structure.merge(p)(x, **given)
    with pytest.raises(ValueError, match="only knows earlier positions"):
        jax.eval_shape(call, w, jnp.zeros((B, T, D)))
    heads_mask = jnp.ones((B, N, T, T), bool)
    with pytest.raises(ValueError, match="one mask for all heads"):
        jax.eval_shape(lambda p, x: call(p, x, mask=heads_mask, is_causal=True), w, jnp.zeros((B, T, D)))
