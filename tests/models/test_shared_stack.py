"""Shared layers and layouts compute the same as a plain stack with the same weights written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.errors import ConfigError
from attention_research.layers.layouts.every import EveryLayout
from attention_research.layers.layouts.one import OneLayout
from attention_research.layers.layouts.uniform import UniformLayout
from attention_research.signatures import Constructor

LAYERS = 3
PRE_NORM = {
    "encoder": ("self_attention", "feed_forward"),
    "decoder": ("self_attention", "cross_attention", "feed_forward"),
}


@pytest.fixture(scope="session")
def model(small):
    """model(encoder=..., decoder=...) -> (structure, parameters) of a small Transformer in the form of T5."""

    def made(**sections):
        sides = {
            side: {"steps": tuple(("norm", s, "dropout", "residual") for s in steps), "final_norm": True}
            for side, steps in PRE_NORM.items()
        }
        for side, settings in sections.items():
            sides[side] |= settings
        return small(
            num_layers=LAYERS, dropout_rate=0.1, positions={"kind": "none"}, **sides,
            self_attention={"kind": "t5", "num_buckets": 8, "max_distance": 9},
        )  # fmt: skip

    return made


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    return {name: jnp.asarray(rng.integers(4, 29, (2, n)), jnp.int32) for name, n in (("source", 7), ("target", 5))}


def written_out(parameters):
    return {
        name: jnp.broadcast_to(x, (LAYERS, *x.shape[1:])) if ".segments." in name else x
        for name, x in parameters.items()
    }


SLOW = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        pytest.param({}, id="scanned"),
        pytest.param({"unroll": True}, id="unrolled", marks=SLOW),
        pytest.param({"remat": True}, id="remat", marks=SLOW),
    ],
)
def test_a_shared_stack_is_a_stack_of_equal_layers(model, batch, how):
    kind = {"stack": {"kind": "shared"}, **how}
    shared, parameters = model(encoder=kind, decoder=kind)
    plain, all_of_them = model()
    stacked = [name for name in parameters if ".segments." in name]
    assert stacked and all(parameters[name].shape[0] == 1 for name in stacked)
    assert written_out(parameters).keys() == all_of_them.keys()

    def loss(structure, p):
        values, _ = structure.merge(p).log_likelihood(batch, key=jax.random.key(7))
        return jnp.sum(values["log_likelihood"])

    ours = jax.jit(jax.value_and_grad(lambda p: loss(shared, p)))(parameters)
    theirs = jax.jit(jax.value_and_grad(lambda p: loss(plain, written_out(p))))(parameters)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6)
    for name in parameters:
        np.testing.assert_allclose(ours[1][name], theirs[1][name], rtol=2e-4, atol=2e-5, err_msg=name)
        assert np.any(ours[1][name]) or name.endswith("key.bias"), name


@pytest.mark.slow
@pytest.mark.parametrize("unroll", [pytest.param(False, marks=SLOW), True])
def test_shared_layers_have_caches_of_their_own(model, batch, unroll):
    kind = {"stack": {"kind": "shared"}, "unroll": unroll}
    structure, parameters = model(encoder=kind, decoder=kind)

    @jax.jit
    def both(p):
        built = structure.merge(p)
        values, _ = built.log_likelihood(batch)
        shifted = jnp.roll(batch["target"], 1, 1).at[:, 0].set(1)

        def step(cache, tokens):
            cache, log_p, _ = built.step(cache, tokens)
            return cache, log_p

        first = built.start(built.encode({"tokens": batch["source"]}))
        log_p = jax.lax.scan(step, first, shifted.T)[1].swapaxes(0, 1)
        return values["log_likelihood"], jnp.take_along_axis(log_p, batch["target"][..., None], -1)[..., 0]

    whole, stepped = both(parameters)
    np.testing.assert_allclose(stepped, whole, atol=2e-5)


def test_layouts_say_which_layers_differ():
    one, other = Constructor(dict, {}), Constructor(dict, {"a": 1})
    plain, changed = {"feed_forward": one}, {"feed_forward": other}
    assert UniformLayout()(plain, 5) == [(plain, 5)]
    every = EveryLayout(interval=2, feed_forward=other)
    assert every(plain, 5) == [(plain, 1), (changed, 1), (plain, 1), (changed, 1), (plain, 1)]
    assert EveryLayout(interval=1, feed_forward=other)(plain, 2) == [(changed, 1), (changed, 1)]
    assert OneLayout(layer=4, feed_forward=other)(plain, 5) == [(plain, 3), (changed, 1), (plain, 1)]
    assert OneLayout(layer=1, feed_forward=other)(plain, 1) == [(changed, 1)]
    with pytest.raises(ConfigError, match="layout.layer: expected at most 5, the number of layers, got 6"):
        OneLayout(layer=6, feed_forward=other)(plain, 5)
    with pytest.raises(ConfigError, match="layout.interval: expected at most 5, the number of layers, got 6"):
        EveryLayout(interval=6, feed_forward=other)(plain, 5)


def test_a_layout_is_what_its_segments_say(model):
    experts = {"kind": "switch", "num_experts": 4, "expert": {"hidden_width": 5}}
    structure, _ = model(encoder={"layout": {"kind": "every", "interval": 3, "feed_forward": experts}})
    segments = {name.split(".segments.")[1][0] for name in structure.names if name.startswith("encoder.stack")}
    found = [name for name in structure.names if "experts" in name]
    assert segments == {"0", "1"} and found and all(name.startswith("encoder.stack.segments.1.") for name in found)
