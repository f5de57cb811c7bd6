"""The reversible stack: outputs and gradients of the plain loop, and memory that does not grow with depth."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.errors import ConfigError
from attention_research.layers.reversible_stack import ReversibleStack
from attention_research.layers.stack import Stack, unstacked

LAYERS = 3
BRANCHES = {
    "encoder": ("self_attention", "feed_forward"),
    "decoder": ("self_attention", "cross_attention", "feed_forward"),
}
REVERSIBLE = {
    side: {"steps": tuple(("norm", s, "dropout", "residual") for s in steps), "final_norm": True, "stack": "reversible"}
    for side, steps in BRANCHES.items()
}


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    return {name: jnp.asarray(rng.integers(4, 29, (2, n)), jnp.int32) for name, n in (("source", 7), ("target", 5))}


class Loop(Stack):
    """The same equations, layer by layer, for automatic differentiation."""

    def __call__(self, x, inputs, *, each=None, key=None):
        first, second, hidden = x, x, []
        keys = jax.random.split(jax.random.fold_in(key, 0), self.repeats[0])
        for l, block in enumerate(unstacked(self.segments[0], self.repeats[0])):
            for number in range(len(block.branches)):
                first, second = second, first + block.alone(number, second, inputs, keys[l])[0]
            hidden.append((first + second) / 2)
        return hidden[-1], {"segment_0": {"hidden": jnp.stack(hidden)}}


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["standard", "t5"])
def test_outputs_and_gradients_are_those_of_the_loop_also_with_dropout(attention, batch, small, monkeypatch):
    buckets = {"num_buckets": 8, "max_distance": 9} if attention == "t5" else {}
    structure, parameters = small(
        num_layers=LAYERS, dropout_rate=0.1, self_attention={"kind": attention, **buckets}, **REVERSIBLE
    )
    factors = jax.random.normal(jax.random.key(3), (LAYERS, 2, 5, 12))

    def loss(p):
        values, aux = structure.merge(p).log_likelihood(batch, key=jax.random.key(7))
        hidden = aux["decoder"]["segment_0"]["hidden"]
        return jnp.sum(values["log_likelihood"]) + jnp.sum(factors * hidden)

    ours = jax.jit(jax.value_and_grad(loss))(parameters)
    monkeypatch.setattr(ReversibleStack, "__call__", Loop.__call__)
    theirs = jax.jit(jax.value_and_grad(loss))(parameters)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6)
    for name in parameters:
        np.testing.assert_allclose(ours[1][name], theirs[1][name], rtol=1e-3, atol=1e-4, err_msg=name)
        assert np.any(ours[1][name]) or name.endswith("key.bias"), name


@pytest.mark.slow
def test_memory_of_the_gradient_does_not_grow_with_depth(small):
    """Bytes of temporary arrays of the compiled gradient, for one more layer."""
    sources = {name: jax.ShapeDtypeStruct((8, 13), jnp.int32) for name in ("source", "target")}

    def temporary(layers, **sides):
        structure, parameters = small(num_layers=layers, dropout_rate=0.0, **sides)

        def gradient(p, batch):
            value = lambda p: jnp.sum(structure.merge(p).log_likelihood(batch)[0]["log_likelihood"])
            return jax.grad(value)(p)

        return jax.jit(gradient).lower(parameters, sources).compile().memory_analysis().temp_size_in_bytes

    plain = {side: {**one, "stack": "layers"} for side, one in REVERSIBLE.items()}
    more = {
        name: (temporary(9, **sides) - temporary(3, **sides)) / 6
        for name, sides in (("plain", plain), ("reversible", REVERSIBLE))
    }
    assert more["reversible"] < 0.1 * more["plain"], more


def test_branches_that_do_not_end_with_an_addition_are_refused(small):
    post_norm, gated = (("self_attention", "residual", "norm"),), (("norm", "self_attention", "residual"),)
    for steps, residual in ((post_norm, "plain"), (gated, "gru_gate")):
        with pytest.raises(ConfigError, match="expects branches that end with a residual that adds"):
            small(encoder={"steps": steps, "residual": residual, "stack": "reversible"})
