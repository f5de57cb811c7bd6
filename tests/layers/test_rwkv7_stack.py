"""RWKV-7 in a stack against float64 NumPy: values of the first layer in the others, and starts that depend on depth."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.errors import ConfigError
from attention_research.layers.attention.interleaved import InterleavedAttention
from attention_research.layers.attention.standard import StandardAttention
from attention_research.layers.attention.state.rwkv7 import RWKV7, RWKV7Above
from attention_research.layers.attention.value_residual import ValueResidualAttention
from attention_research.layers.attention.yoco import YOCOAttention
from attention_research.layers.block import Block
from attention_research.layers.layouts.by_layer import by_layer
from attention_research.layers.stack import Stack
from attention_research.layers.structure import abstract
from attention_research.signatures import Constructor

B, T, P, D, N, H = 2, 7, 3, 10, 2, 3
SIZES = {"width": D, "num_heads": N, "head_width": H, "rank": 4, "gate_rank": 5, "value_rank": 2}


def stack_of(layers):
    """A function of `rngs` that builds a stack of RWKV-7 layers with residuals."""
    segments = by_layer([({"self_attention": Constructor(RWKV7, SIZES)}, layers)])
    blocks = partial(Block, steps=(("self_attention", "residual"),), dropout_rate=0.0)
    return partial(Stack, segments=[(partial(blocks, children=some), count) for some, count in segments])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def layer64(w, x, first):
    """(y, the values of the layer) of one row [T D], position by position and head by head."""
    state, y, values = np.zeros((N, H, H)), np.zeros((len(x), D)), np.zeros((len(x), N * H))
    low = lambda name, x, act=lambda x: x: act(x @ w[f"{name}.down_kernel"]) @ w[f"{name}.up_kernel"]
    for t, now in enumerate(x):
        before = x[t - 1] if t else np.zeros(D)
        x_r, x_w, x_k, x_v, x_a, x_g = (now + mu * (before - now) for mu in w["mix"])
        r, k, v = x_r @ w["query.kernel"], x_k @ w["key.kernel"], x_v @ w["value.kernel"]
        values[t] = v
        if first is not None:
            share = sigmoid(w["share_bias"] + low("share", x_v))
            v = (1 - share) * v + share * first[t]
        decay = np.exp(-np.exp(-0.5) * sigmoid(w["decay_bias"] + low("decay", x_w, np.tanh)))
        rate = sigmoid(w["rate_bias"] + low("rate", x_a))
        removal, k = k * w["removal"], k * (1 + (rate - 1) * w["replacement"])
        joined = np.zeros(N * H)
        for n in range(N):
            one = slice(n * H, n * H + H)
            kappa = removal[one] / np.linalg.norm(removal[one])
            erased = np.outer(rate[one] * kappa, kappa @ state[n])
            state[n] = decay[one][:, None] * state[n] - erased + np.outer(k[one], v[one])
            o = r[one] @ state[n]
            o = (o - o.mean()) / np.sqrt(o.var() + 64e-5) * w["norm_scale"][one] + w["norm_bias"][one]
            joined[one] = o + (r[one] * k[one] * w["bonus"][one]).sum() * v[one]
        y[t] = (joined * low("gating", x_g, sigmoid)) @ w["output.kernel"]
    return y, values


@pytest.mark.slow
def test_a_stack_is_the_equations_also_after_a_prompt_and_step_by_step():
    structure, shapes, _ = abstract(lambda rngs: stack_of(3)(rngs=rngs))
    random = np.random.default_rng(0)
    parameters = {name: random.standard_normal(p.shape) * 0.3 for name, p in sorted(shapes.items())}
    x = random.standard_normal((B, T, D))

    @jax.jit
    def everything(p, x):
        stack = structure.merge(p)
        causal = {"self_attention": {"is_causal": True, "mask": jnp.ones((B, 1, 1, P), bool)}}
        whole, _ = stack(x, {"self_attention": {"is_causal": True}})
        prompt, caches = stack.prefill(x[:, :P], T, causal)

        def step(carry, now):
            caches, index = carry
            y, caches, _ = stack.step(now[:, None], caches, index, {})
            return (caches, index + 1), y[:, 0]

        _, rest = jax.lax.scan(step, (caches, jnp.int32(P)), x[:, P:].swapaxes(0, 1))
        return whole, jnp.concatenate([prompt, rest.swapaxes(0, 1)], axis=1)

    whole, stepped = everything({name: jnp.float32(p) for name, p in parameters.items()}, jnp.float32(x))
    part = lambda segment, l: {
        name.split("self_attention.")[1]: p[l] for name, p in parameters.items() if name.split(".")[1] == segment
    }
    for row in range(B):
        want, first = x[row], None
        for w in (part("0", 0), part("1", 0), part("1", 1)):
            y, values = layer64(w, want, first)
            want, first = want + y, values if first is None else first
        np.testing.assert_allclose(whole[row], want, atol=2e-5)
        np.testing.assert_allclose(stepped[row], want, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 3])
def test_the_starts_of_each_layer_are_those_of_the_released_code(layers):
    """The formulas of `RWKV_Tmix_x070`, channel by channel."""
    stack, C, found = jax.jit(lambda: stack_of(layers)(rngs=nnx.Rngs(0)))(), N * H, []
    for segment in stack.segments:
        found += [(segment.self_attention, l) for l in range(segment.self_attention.mix.shape[0])]
    for depth, (layer, l) in enumerate(found):
        ratio, rest = depth / max(layers - 1, 1), 1 - depth / layers
        want = {name: np.zeros(C) for name in ("decay_bias", "rate_bias", "removal", "share_bias")}
        for n in range(C):
            line, z = n / (C - 1) - 0.5, (n % H - (H - 1) / 2) / ((H - 1) / 2)
            want["decay_bias"][n] = -6 + 6 * (n / (C - 1)) ** (1 + ratio**0.3) + 0.5 + 2.5 * z * abs(z)
            want["rate_bias"][n] = -0.19 + 0.3 * z * abs(z) + 0.4 * line
            want["removal"][n] = 0.71 - 0.1 * line
            want["share_bias"][n] = 0.73 - 0.4 * line
        want["mix"] = [[1 - (i / D) ** (power * rest) for i in range(D)] for power in (0.2, 0.9, 0.7, 0.7, 0.9, 0.2)]
        want["norm_scale"] = np.full(C, ((depth + 1) / layers) ** 0.7)
        for name in want if depth else want.keys() - {"share_bias"}:
            np.testing.assert_allclose(getattr(layer, name)[l], want[name], atol=1e-5)


def kinds(target, layers, **settings):
    segments = by_layer([({"self_attention": Constructor(target, settings)}, layers)])
    return [one["self_attention"].target for one, count in segments for _ in range(count)]


def test_the_first_of_the_rwkv7_layers_hands_over_its_values_between_other_layers_too():
    rwkv7, other = Constructor(RWKV7, {}), Constructor(StandardAttention, {})
    hybrid = kinds(InterleavedAttention, 5, interval=2, first=rwkv7, last=other)
    assert hybrid == [RWKV7, StandardAttention, RWKV7Above, StandardAttention, RWKV7Above]
    assert kinds(YOCOAttention, 5, lower=rwkv7)[:2] == [RWKV7, RWKV7Above]
    assert kinds(RWKV7, 1) == [RWKV7]
    with pytest.raises(ConfigError, match="first: RWKV7 needs a stack of its own kind"):
        kinds(InterleavedAttention, 4, interval=2, first=rwkv7, last=Constructor(ValueResidualAttention, {}))
