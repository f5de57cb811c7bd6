"""Encoder and decoder with shared weights equal a Transformer with two equal stacks; gradients are the sum of both."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.decoding import Greedy
from attention_research.errors import ConfigError
from tests.models.facts import QUICKLY, batch_of

PRE_NORM = {
    side: {"steps": [["norm", layer, "dropout", "residual"] for layer in layers], "final_norm": True}
    for side, layers in {
        "encoder": ("self_attention", "feed_forward"),
        "decoder": ("self_attention", "cross_attention", "feed_forward"),
    }.items()
}
KINDS = {
    "post-norm": {},
    "t5": {
        **PRE_NORM,
        "self_attention": {"kind": "t5", "num_buckets": 8, "max_distance": 9},
        "norm": {"kind": "rms_norm"},
        "positions": {"kind": "none"},
    },
}
#: The decoder's name of a part -> the encoder's. The second norm is that of the cross-attention.
SAME = {"self_attention": "self_attention", "feed_forward": "feed_forward", "norm": "norm", "norm_3": "norm_2"}


@pytest.fixture(scope="module", params=[pytest.param("post-norm", marks=pytest.mark.slow), "t5"])
def both(request, small):
    """(structure and parameters of the shared model, those of two stacks with equal weights, name -> shared name)."""
    structure, parameters = small(kind="shared_transformer", dropout_rate=0.0, **KINDS[request.param])
    apart, theirs = small(dropout_rate=0.0, **KINDS[request.param])
    source = {}
    for name in theirs:
        part = name.split(".")[4] if name.startswith("decoder.stack") else ""
        shared = name.replace("decoder.stack", "encoder.stack").replace(f".{part}.", f".{SAME.get(part)}.", 1)
        source[name] = shared if part in SAME else name
    assert set(source.values()) == parameters.keys(), "parameters of both stacks should be stored once"
    return structure, parameters, apart, {name: parameters[other] for name, other in source.items()}, source


@pytest.fixture(scope="module")
def batch():
    return batch_of(np.random.default_rng(5))


@pytest.fixture(scope="module")
def points(both, batch):
    structure, parameters, apart, theirs, _ = both
    return facts(apart, batch, theirs), facts(structure, batch, parameters)


def facts(structure, batch, parameters):
    """Likelihoods, their gradients, and the decoded output."""

    def loss(p):
        values, _ = structure.merge(p).log_likelihood(batch)
        return -jnp.sum(values["log_likelihood"], where=values["mask"]), values

    def everything(p):
        (_, values), gradients = jax.value_and_grad(loss, has_aux=True)(p)
        found = Greedy()(structure.merge(p), {"tokens": batch["source"]}, max_length=9)
        return {**values, "gradients": gradients, "tokens": found.tokens, "prices": found.log_probabilities}

    return jax.tree.map(np.asarray, jax.jit(everything, compiler_options=QUICKLY)(parameters))


@pytest.mark.slow
def test_likelihoods_are_those_of_two_stacks_with_the_same_weights(points):
    apart, shared = points
    np.testing.assert_allclose(shared["log_likelihood"], apart["log_likelihood"], atol=1e-6)


def test_gradients_are_the_sum_of_both_places(points, both):
    apart, shared = points
    expected = {}
    for name, other in both[-1].items():
        expected[other] = expected.get(other, 0) + apart["gradients"][name]
    assert expected.keys() == shared["gradients"].keys()
    for name, gradient in expected.items():
        np.testing.assert_allclose(shared["gradients"][name], gradient, atol=2e-5, err_msg=name)


def test_it_decodes_as_two_stacks_with_the_same_weights(points):
    apart, shared = points
    np.testing.assert_array_equal(shared["tokens"], apart["tokens"])
    np.testing.assert_allclose(shared["prices"], apart["prices"], rtol=1e-5)


def test_stacks_that_do_not_fit_are_refused(small):
    with pytest.raises(ConfigError, match=r"^model.decoder.num_layers: .* segments of \(2,\) layers and of \(3,\)"):
        small(kind="shared_transformer", encoder={"num_layers": 3})
    with pytest.raises(ConfigError, match="^model.decoder.steps: .* must be equal"):
        small(kind="shared_transformer", encoder=PRE_NORM["encoder"])
    with pytest.raises(ConfigError, match=r"^model\.decoder\.self_attention: RotaryAttention; .* has Standard"):
        small(kind="shared_transformer", decoder={"self_attention": {"kind": "rotary"}})
    for layer, settings in (("feed_forward", {"activation": "gelu"}), ("self_attention", {"use_bias": False})):
        with pytest.raises(ConfigError, match=rf"^model\.decoder\.{layer}: \w+ with other settings than the encoder's"):
            small(kind="shared_transformer", decoder={layer: settings})
    with pytest.raises(ConfigError, match=r"^model\.decoder\.feed_forward: \w+ with other settings"):
        small(kind="shared_transformer", decoder={"feed_forward": {"hidden_width": 5}})
