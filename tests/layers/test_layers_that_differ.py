"""Stacks whose layers differ or hand values to each other, against float64 NumPy, with their layouts."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.errors import ConfigError
from attention_research.layers.attention.alibi import AlibiAttention
from attention_research.layers.attention.cross_layer import CrossLayerAttention, ReadsKeys
from attention_research.layers.attention.interleaved import InterleavedAttention
from attention_research.layers.attention.standard import StandardAttention
from attention_research.layers.attention.t5 import T5Attention
from attention_research.layers.attention.value_residual import MixedValuesAttention, ValueResidualAttention
from attention_research.layers.attention.yoco import YOCOAttention
from attention_research.layers.block import Block
from attention_research.layers.layouts.by_layer import by_layer
from attention_research.layers.stack import Stack
from attention_research.layers.structure import abstract
from attention_research.signatures import Constructor

B, T, D, N, H = 2, 5, 6, 3, 4
SIZES = {"width": D, "num_heads": N, "head_width": H}


def stack_of(target, layers, **settings):
    """(structure, float64 parameters) of a stack of attentions with residuals."""
    segments = by_layer([({"self_attention": Constructor(target, {**SIZES, **settings})}, layers)])
    blocks = partial(Block, steps=(("self_attention", "residual"),), dropout_rate=0.0)
    make = partial(Stack, segments=[(partial(blocks, children=some), count) for some, count in segments])
    structure, shapes, _ = abstract(lambda rngs: make(rngs=rngs))
    rng = np.random.default_rng(0)
    return structure, {name: rng.standard_normal(p.shape) * 0.6 for name, p in shapes.items()}


def layers_of(parameters):
    """The parameters of each layer, by name."""
    found = []
    for segment in sorted({name.split(".")[1] for name in parameters}):
        own = {n.split("self_attention.")[1]: p for n, p in parameters.items() if n.split(".")[1] == segment}
        count = len(next(iter(own.values())))
        found += [{name: p[layer] for name, p in own.items()} for layer in range(count)]
    return found


def project(w, name, x):
    return (x @ w[f"{name}.kernel"] + w[f"{name}.bias"]).reshape(B, T, N, H)


def turned(x):
    """Rotary positions: pairs (2i, 2i+1) as complex numbers."""
    angle = np.arange(T)[:, None] * 10000.0 ** (-np.arange(0, H, 2) / H)
    z = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)[:, None]
    return np.stack([z.real, z.imag], -1).reshape(x.shape)


def attend(q, k, v):
    logits = np.einsum("btnh,bsnh->bnts", q, k) / np.sqrt(H)
    logits = np.where(np.tri(T, dtype=bool), logits, -np.inf)
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return np.einsum("bnts,bsnh->btnh", e / e.sum(-1, keepdims=True), v)


def added(w, x, context):
    return x + context.reshape(B, T, N * H) @ w["output.kernel"] + w["output.bias"]


def value_residual(layers, x):
    first = None
    for w in layers:
        v = project(w, "value", x)
        first = v if first is None else first
        v = v if "share_scale" not in w else w["share_scale"] * v + (1 - w["share_scale"]) * first
        x = added(w, x, attend(project(w, "query", x), project(w, "key", x), v))
    return x


def shared_keys(layers, x):
    key = value = None
    for w in layers:
        if "key.kernel" in w:
            key, value = turned(project(w, "key", x)), project(w, "value", x)
        x = added(w, x, attend(turned(project(w, "query", x)), key, value))
    return x


CASES = {
    "value_residual": (ValueResidualAttention, 3, {}, value_residual),
    "cross_layer-2": (CrossLayerAttention, 4, {"interval": 2}, shared_keys),
    "cross_layer-3": (CrossLayerAttention, 4, {"interval": 3}, shared_keys),
}


@pytest.mark.parametrize("case", CASES)
def test_a_stack_equals_its_equation(case):
    target, count, settings, oracle = CASES[case]
    structure, parameters = stack_of(target, count, **settings)
    x = np.random.default_rng(1).standard_normal((B, T, D))
    narrow = {name: jnp.float32(p) for name, p in parameters.items()}
    inputs = {"self_attention": {"is_causal": True}}
    y, _ = jax.jit(lambda p, x: structure.merge(p)(x, inputs))(narrow, jnp.float32(x))
    np.testing.assert_allclose(y, oracle(layers_of(parameters), x), rtol=1e-4, atol=1e-4)


def layout(target, layers, **settings):
    """[(class, number of layers)] of the segments."""
    segments = by_layer([({"self_attention": Constructor(target, settings)}, layers)])
    return [(some["self_attention"].target, count) for some, count in segments]


def test_layouts():
    first, last = (Constructor(target, {}) for target in (AlibiAttention, StandardAttention))
    A, S = AlibiAttention, StandardAttention
    both = {"first": first, "last": last}
    assert layout(InterleavedAttention, 8, interval=4, **both) == [(A, 3), (S, 1)] * 2
    assert layout(InterleavedAttention, 5, interval=2, **both) == [(A, 1), (S, 1), (A, 1), (S, 1), (A, 1)]
    with pytest.raises(ConfigError, match="self_attention.interval: expected at most 3, the number of layers, got 4"):
        layout(InterleavedAttention, 3, interval=4, **both)
    assert layout(ValueResidualAttention, 3) == [(ValueResidualAttention, 1), (MixedValuesAttention, 2)]
    C, Y, R = CrossLayerAttention, YOCOAttention, ReadsKeys
    assert layout(C, 3, interval=2) == [(C, 1), (R, 1), (C, 1)]
    assert layout(C, 5, interval=3) == [(C, 1), (R, 2), (C, 1), (R, 1)]
    assert layout(Y, 6, lower=first) == [(A, 3), (Y, 1), (R, 2)]
    assert layout(Y, 2, lower=first) == [(A, 1), (Y, 1)]


def test_each_attention_of_a_block_has_its_own_layout():
    children = {
        "self_attention": Constructor(CrossLayerAttention, {"interval": 2}),
        "wide_self_attention": Constructor(ValueResidualAttention, {}),
    }
    found = [([one.target for one in some.values()], count) for some, count in by_layer([(children, 4)])]
    C, R, V, M = CrossLayerAttention, ReadsKeys, ValueResidualAttention, MixedValuesAttention
    assert found == [([C, V], 1), ([R, M], 1), ([C, M], 1), ([R, M], 1)]


def test_lower_layers_that_share_parameters_are_refused():
    with pytest.raises(ConfigError, match="self_attention.lower: T5Attention needs a stack of its own kind"):
        layout(YOCOAttention, 4, lower=Constructor(T5Attention, {}))


def test_stacks_that_are_too_small_are_refused():
    for target, settings in ((ValueResidualAttention, {}), (YOCOAttention, {"lower": None})):
        with pytest.raises(ConfigError, match="num_layers: 1; .* at least 2 layers"):
            layout(target, 1, **settings)


def test_too_few_of_the_layers_are_named_by_their_section():
    value, plain = Constructor(ValueResidualAttention, {}), Constructor(StandardAttention, {})
    few = "this kind expects at least 2 layers; 1 of 3 layers has it"
    with pytest.raises(ConfigError, match=f"^self_attention.last: {few}$"):
        layout(InterleavedAttention, 3, interval=2, first=plain, last=value)
    with pytest.raises(ConfigError, match=f"^self_attention.lower: {few}$"):
        layout(YOCOAttention, 3, lower=value)
    V, M = ValueResidualAttention, MixedValuesAttention
    assert layout(InterleavedAttention, 2, interval=1, first=plain, last=value) == [(V, 1), (M, 1)]


def test_a_reader_needs_a_lower_layer():
    structure, parameters = stack_of(ReadsKeys, 1)
    with pytest.raises(ConfigError, match="self_attention: ReadsKeys of layer 1 needs a lower layer"):
        structure.merge(parameters)(jnp.ones((B, T, D)), {})


def test_only_the_keys_of_the_first_of_a_group_are_cached():
    structure, parameters = stack_of(CrossLayerAttention, 4, interval=2)
    caches = jax.eval_shape(lambda p: structure.merge(p).start(B, T, jnp.float32, {}), parameters)
    sizes = [sum(x.size for x in jax.tree.leaves(cache)) for cache in caches]
    assert sizes == [2 * B * T * N * H, 0] * 2
