"""The attribute `cost` of attention kinds: the formula of the state is the size of `start`, and every kind has one."""

import inspect
import math

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from attention_research.config import catalogue, schema
from attention_research.errors import ConfigError
from attention_research.registry import CAUSAL, ENCODER, FAMILIES, locate
from tests.layers.test_registry import LAYOUTS, SETTINGS, maker

S = 23


def longest(kind):
    """S, or the `max_length` of a kind that has one."""
    return min(S, SETTINGS["max_length"]) if "max_length" in schema.signature(CAUSAL, kind) else S


def names(module, family, kind, changed):
    """The names of a formula: settings, widths and numbers of heads of a built layer."""
    of = lambda *attributes: next((getattr(module, one) for one in attributes if hasattr(module, one)), None)
    settings = {
        name: SETTINGS.get(name) if one.default is schema.REQUIRED else one.default
        for name, one in schema.signature(family, kind).items()
    }
    heads, width = of("num_heads"), of("head_width")
    return {
        **settings, **changed, **{name: value for name, value in vars(module).items() if isinstance(value, int)},
        "S": longest(kind), "D": SETTINGS["width"], "N": heads, "K": of("num_key_value_heads", "num_heads"), "H": width,
        "Hv": of("value_head_width", "head_width"), "max": max, "min": min, "ceil": math.ceil, "log2": math.log2,
    }  # fmt: skip


def changes(kind):
    """No change of the settings, then one setting at a time: the other boolean, or the next integer."""
    found = [{}]
    for name, one in schema.signature(CAUSAL, kind).items():
        if isinstance(one.default, bool):
            found.append({name: not one.default})
        elif isinstance(one.default, int):
            found.append({name: one.default + 1})
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in FAMILIES[CAUSAL] if kind not in LAYOUTS])
def test_the_stated_state_is_what_a_layer_caches(kind):
    """The number of floating-point values in the cache of one row with S positions."""
    stated, exponent = catalogue.cost(*locate(CAUSAL, kind))
    for changed in changes(kind):
        make, found = maker(CAUSAL, kind, **changed), {}

        def start(make=make, found=found, changed=changed):
            module = make(nnx.Rngs(0))
            found.update(names(module, CAUSAL, kind, changed))
            depth = {"depth": jnp.int32(0)} if "depth" in inspect.signature(module.start).parameters else {}
            return module.start(1, longest(kind), jnp.float32, **depth)

        try:
            cache = jax.eval_shape(start)
        except ConfigError:  # such a value of this setting is not allowed
            assert changed
            continue
        size = sum(x.size for x in jax.tree.leaves(cache) if jnp.issubdtype(x.dtype, jnp.floating))
        assert eval(stated, {"__builtins__": {}}, found) == size, changed
    assert exponent in (1, 1.5, 2)


def test_every_attention_states_its_exponent():
    for family in (ENCODER, CAUSAL):
        kinds = [kind for kind in FAMILIES[family] if kind not in LAYOUTS]
        assert not [kind for kind in kinds if catalogue.facts(family, kind)["exponent"] is None]
