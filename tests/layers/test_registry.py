"""Every registered layer and model is a valid plain pytree: checks errors of NNX modules that JAX does not report."""

import inspect
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.config import build_model, schema
from attention_research.registry import FAMILIES, lookup
from attention_research.signatures import ConfigPath, Constructor

STATIC = (int, float, str, bool, type(None), type, np.dtype, types.FunctionType, ConfigPath)
MODULES = (
    "encoder_attention",
    "causal_attention",
    "cross_attention",
    "encoder_convolution",
    "causal_convolution",
    "positions",
    "feed_forward",
    "norm",
    "vocabulary",
    "recurrent_cell",
    "score",
    "alignment",
    "recurrent_vocabulary",
    "caption_vocabulary",
    "image_alignment",
    "image_features",
    "image_gate",
    "image_reader",
    "pooling",
    "residual",
)
#: Kinds that only lay out the kinds of other layers.
LAYOUTS = ("interleaved",)
VARIANTS = [(family, kind) for family in MODULES for kind in FAMILIES[family] if kind not in LAYOUTS]
MODELS = list(FAMILIES["model"])
SETTINGS = dict(
    width=12, num_heads=3, head_width=None, max_length=11, rank=5, hidden_width=17, vocabulary_size=23, dtype="float32",
    input_width=13, query_width=12, key_width=12, embedding_width=7, output_width=5, attention_width=5, num_experts=4,
    channels=3, factor=2.0, original_length=7, cap=2.5, cell_width=4, typical_length=7, window=3, latent_width=5,
    rotary_width=2, num_layers=2, segment_length=4,
    cluster_sizes=(5, 7, 11), cluster_widths=(12, 5, 3),
    feed_forward=Constructor(lookup("feed_forward", "dense"), {"width": 12, "hidden_width": 17}),
    norm=Constructor(lookup("norm", "layer_norm"), {"width": 12}),
    cross_attention=Constructor(
        lookup("cross_attention", "standard"), {"width": 12, "num_heads": 3, "head_width": None}
    ),
    lower=Constructor(lookup("causal_attention", "standard"), {"width": 12, "num_heads": 3, "head_width": None}),
)  # fmt: skip
TRANSFORMER = {"width": 12, "num_heads": 3, "num_layers": 2, "feed_forward": {"hidden_width": 17}}
PATCHES = {"side": 6, "channels": 3, "patch_side": 2, "max_length": 10, "num_classes": 5}
CNN = {"kind": "cnn", "channels": 3, "width": 5}
#: Settings that models other than Transformers need.
SECTIONS = {
    "recurrent": {"width": 12, "num_layers": 2},
    "latent_alignment": {"width": 12, "num_layers": 2},
    "recurrent_language_model": {"width": 12, "num_layers": 2},
    "feed_forward_language_model": {"width": 12},
    "rationale": {"width": 12, "num_layers": 2, "embedding_width": 7},
    "soft_attention_ratings": {"width": 12, "num_layers": 2, "embedding_width": 7, "attention_width": 5},
    "conv_attention": {"width": 12},
    "copy_attention": {"width": 12},
    "text_classifier": {"width": 12},
    "encoder_classifier": {**TRANSFORMER, "readout_width": 5},
    "pair_classifier": {**TRANSFORMER, "readout_width": 5},
    "vision_transformer": {**TRANSFORMER, **PATCHES},
    "image_classifier": {"width": 3, "num_classes": 5, "features": {"kind": "resnet", "channels": 3, "depth": 14}},
    "recurrent_captioner": {"width": 12, "features": CNN},
    "transformer_captioner": {**TRANSFORMER, "features": CNN},
    "image_question_classifier": {**TRANSFORMER, "num_classes": 5, "readout_width": 7, "features": CNN},
    "pointer_generator": {"width": 12},
    "query_model": {"width": 12, "network": {"kind": "recurrent"}},
    "series": {
        "width": 12,
        "channels": 2,
        "network": {"kind": "temporal_convolution", "num_layers": 2, "kernel_width": 3},
    },
}


def given(target):
    """Arguments that a constructor takes from its parent module only. ``**inherited`` adds those of its base."""
    for one in (one for one in target.__mro__ if "__init__" in vars(one)):
        parameters = inspect.signature(one.__init__).parameters
        found = {name for name, parameter in parameters.items() if str(parameter.annotation).startswith("Given[")}
        return found | (given(one.__mro__[1]) if schema.INHERITED in parameters else set())
    return set()


def maker(family, kind, **changed):
    """rngs -> the module, with required settings from SETTINGS, children of their default kinds, and other settings."""
    target = lookup(family, kind)
    settings = schema.signature(family, kind)
    required = {name for name, setting in settings.items() if setting.default is schema.REQUIRED}
    needed = {name: SETTINGS[name] for name in required | given(target)}
    for name, setting in settings.items():
        if setting.section is not None and setting.default is not schema.REQUIRED:
            family, child = setting.section.family, setting.default["kind"]
            wanted = schema.signature(family, child).items()
            missing = {setting for setting, one in wanted if one.section is None and one.default is schema.REQUIRED}
            needed[name] = Constructor(lookup(family, child), {setting: SETTINGS[setting] for setting in missing})
    return lambda rngs: target(**{**needed, **changed}, rngs=rngs)


def model_maker(kind):
    section = {"kind": kind, **SECTIONS.get(kind, TRANSFORMER)}
    constructor = build_model(section, max_length=11, vocabulary_size=23, side=6, channels=3)
    return lambda rngs: constructor(rngs=rngs)


def check_module(make):
    """Raises AssertionError with the name of an attribute that plain JAX would treat wrongly without an error."""
    seen = {}

    def static_ok(value):
        if isinstance(value, tuple):
            return all(map(static_ok, value))
        return isinstance(value, STATIC) and not isinstance(value, np.generic)

    def walk(m, path):
        assert id(m) not in seen, f"{path}: the same object as {seen[id(m)]}"
        seen[id(m)] = path
        for name, value in vars(m).items():
            if name.startswith("_pytree__") or name == "_length":
                continue
            here = f"{path}.{name}"
            if isinstance(value, nnx.Variable):
                assert id(value) not in seen, f"{here}: shared with {seen[id(value)]}"
                assert isinstance(value, (nnx.Param, nnx.BatchStat)), f"{here}: a {type(value).__name__}"
                seen[id(value)] = here
            elif isinstance(value, (nnx.Rngs, nnx.Dict)):
                raise AssertionError(f"{here}: a {type(value).__name__} on a module")
            elif isinstance(value, nnx.Module):
                walk(value, here)
            else:
                assert static_ok(value), f"{here}: {type(value).__name__} cannot be a static attribute"

    def built(key):
        module = make(nnx.Rngs(key))
        walk(module, type(module).__name__)
        return module

    key = jax.random.key(0)
    module = jax.eval_shape(built, key)
    again = jax.eval_shape(lambda key: make(nnx.Rngs(key)), key)
    assert jax.tree.structure(module) == jax.tree.structure(again), "two instances differ in structure"
    stacked = jax.eval_shape(jax.vmap(lambda k: make(nnx.Rngs(k))), jax.random.split(key, 2))
    assert jax.tree.structure(stacked) == jax.tree.structure(module), "the structure changes under vmap"


@pytest.mark.parametrize(("family", "kind"), VARIANTS, ids=[f"{f}-{k}" for f, k in VARIANTS])
def test_layer_is_a_plain_pytree(family, kind):
    check_module(maker(family, kind))


@pytest.mark.parametrize("kind", MODELS)
def test_model_is_a_plain_pytree(kind):
    check_module(model_maker(kind))


@pytest.mark.parametrize("kind", list(FAMILIES["encoder_attention"]))
def test_a_call_does_not_change_the_module(kind):
    make, target = maker("encoder_attention", kind), lookup("encoder_attention", kind)
    owned = dict(width=12, num_heads=3, num_buckets=32, max_distance=128, rank=5, max_length=11, sharing="headwise")

    def called(key, x):
        module, shared = make(nnx.Rngs(key)), None
        if hasattr(target, "owned_by_stack"):
            shared = target.owned_by_stack(**owned, rngs=nnx.Rngs(key))
        before, leaves = jax.tree.structure(module), jax.tree.leaves(module)
        y, _ = module(x, shared=shared)
        after = jax.tree.leaves(module)
        assert before == jax.tree.structure(module) and all(a is b for a, b in zip(leaves, after, strict=True))
        return y

    assert jax.eval_shape(called, jax.random.key(0), jnp.ones((2, 11, 12))).shape == (2, 11, 12)


def test_the_check_finds_invalid_modules():
    class Tied(nnx.Module):
        def __init__(self, rngs):
            self.a = nnx.Linear(2, 2, rngs=rngs)
            self.b = self.a

    class Kept(nnx.Module):
        def __init__(self, rngs):
            self.activation = lambda x: x

    class Random(nnx.Module):
        def __init__(self, rngs):
            self.dropout = nnx.Dropout(0.1, rngs=rngs)

    for wrong in (Tied, Kept, Random):
        with pytest.raises(AssertionError):
            check_module(wrong)
