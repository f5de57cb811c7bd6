"""Fewer key heads equal one key head per query head with repeated parameters, for every kind that takes them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.config import schema
from attention_research.errors import ConfigError
from attention_research.kernels.masks import padding_mask
from attention_research.layers.structure import abstract
from attention_research.registry import FAMILIES, lookup
from tests.tiers import fast_are

B, T, D, N, K, H = 3, 7, 11, 6, 2, 4
SIZES = {"width": D, "num_heads": N, "head_width": H}
#: Settings that some kinds need. Each kind takes those that its signature names.
SETTINGS = {
    "max_length": T + 2, "rank": 3, "block_size": 2, "num_features": 5, "sharing": "none", "random_blocks": 1,
    "global_blocks": 1, "num_buckets": 8, "max_distance": 3, "iterations": 2,
    "factor": 2.0, "original_length": 5, "top_k": 2, "num_blocks": 2, "window": 1, "cap": 1.5, "typical_length": 5,
    "cell_width": 3, "segment_length": 3,
}  # fmt: skip
#: Kinds whose layers are those of another kind.
SAME = ("yoco",)
#: Projections to all key heads -> the channels of a head.
PARTS = {"key": H, "value": H, "direction_up": H, "beta": 1, "key_shift": 1, "value_shift": 1}
REAL = jnp.arange(T) < jnp.array([[T], [5], [6]])


def takes_groups():
    """ "family-kind" -> (family, kind) of each class that takes fewer key heads, once."""
    found = {}
    for family in ("causal_attention", "encoder_attention", "cross_attention"):
        for kind, target in FAMILIES[family].items():
            if "num_key_value_heads" in schema.signature(family, kind) and kind not in SAME:
                found.setdefault(target, (family, kind))
    return {f"{family}-{kind}": (family, kind) for family, kind in found.values()}


def made(family, kind, heads):
    """(structure, shapes, statistics) of a layer with `heads` key heads."""
    settings = {name: value for name, value in SETTINGS.items() if name in schema.signature(family, kind)}
    target = lookup(family, kind)
    return abstract(lambda rngs: target(**SIZES, **settings, num_key_value_heads=heads, rngs=rngs))


def repeated(name, x):
    """The parameters of N key heads from those of K: each head's part, N / K times."""
    part = name.split(".")[0]
    if part in PARTS:
        return np.repeat(x.reshape(*x.shape[:-1], K, PARTS[part]), N // K, axis=-2).reshape(*x.shape[:-1], -1)
    if name == "convolution.filter_kernel":
        return np.repeat(x.reshape(K, H, -1), N // K, axis=0).reshape(N * H, -1)
    if name in ("key_projection", "value_projection") and x.ndim == 3:
        return np.repeat(x, N // K, axis=0)
    return x


#: Kinds that use the key heads in different ways.
FAST = {
    "causal_attention-standard", "causal_attention-relative", "causal_attention-rotary", "causal_attention-path",
    "causal_attention-transformer_xl", "causal_attention-native_sparse", "causal_attention-forgetting",
    "causal_attention-cross_layer", "causal_attention-sliding_window", "causal_attention-talking_heads",
    "causal_attention-random_synthesizer_plus", "encoder_attention-linformer", "encoder_attention-linear",
    "encoder_attention-bigbird", "encoder_attention-performer",
}  # fmt: skip


@pytest.mark.parametrize(("family", "kind"), fast_are(FAST, takes_groups(), several=True))
def test_grouped_heads_are_repeated_heads(family, kind):
    rng, target = np.random.default_rng(0), lookup(family, kind)
    structure, shapes, fixed = made(family, kind, K)
    whole, wide, _ = made(family, kind, N)
    parameters = {name: np.float32(rng.standard_normal(p.shape) * 0.5) for name, p in shapes.items()}
    spread = {name: repeated(name, p) for name, p in parameters.items()}
    assert {name: p.shape for name, p in spread.items()} == {name: p.shape for name, p in wide.items()}
    whole_number = lambda p: jnp.issubdtype(p.dtype, jnp.integer)
    drawn = lambda p: rng.integers(0, 3, p.shape) if whole_number(p) else rng.standard_normal(p.shape)
    statistics = {name: jnp.asarray(drawn(p), p.dtype) for name, p in fixed.items()}
    x, memory = (jnp.float32(rng.standard_normal((B, T, D))) for _ in range(2))
    given = {"mask": padding_mask(REAL)}
    if hasattr(target, "owned_by_stack"):
        owned = {**SIZES, **SETTINGS, "num_buckets": 8, "max_distance": 5}
        given["shared"] = target.owned_by_stack(**owned, rngs=nnx.Rngs(0))
    if family == "causal_attention":
        given["is_causal"] = True
    inputs = (x, memory) if family == "cross_attention" else (x,)
    outputs = [
        jax.jit(lambda p, one=one: one.merge(p, statistics)(*inputs, **given))(p)
        for one, p in ((structure, parameters), (whole, spread))
    ]
    (y, aux), (z, other) = outputs
    np.testing.assert_allclose(y, z, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(aux["attention_weights"], other["attention_weights"], rtol=1e-4, atol=1e-5)


def test_key_heads_must_divide_the_heads():
    with pytest.raises(ConfigError, match="num_key_value_heads: expected a divisor of num_heads 6, got 4"):
        made("causal_attention", "standard", 4)
