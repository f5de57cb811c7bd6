"""Reversible layers: the equations, the gradient of the plain loop, memory that is constant in the number of layers."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import dot_product_attention
from attention_research.kernels.efficient import reversible_layers
from attention_research.kernels.efficient.reversible_branches import reversible_branches

B, T, D, F, L = 2, 5, 7, 11, 3


def attention(weight, x):
    heads = jnp.einsum("BTD,DE->BTE", x, weight)[:, :, None]
    return dot_product_attention(heads, heads, heads, is_causal=True)[:, :, 0]


def feed_forward(weights, x):
    return jnp.einsum("BTF,FD->BTD", jnp.tanh(jnp.einsum("BTD,DF->BTF", x, weights["in"])), weights["out"])


def arrays(normal, layers=L):
    parameters = (0.3 * normal(layers, D, D), {"in": 0.3 * normal(layers, D, F), "out": 0.3 * normal(layers, F, D)})
    return normal(B, T, D), normal(B, T, D), parameters


def loop(x1, x2, parameters):
    """The two equations, layer by layer, for automatic differentiation."""
    for layer in range(parameters[0].shape[0]):
        of_f, of_g = jax.tree.map(lambda x, layer=layer: x[layer], parameters)
        x1 = x1 + attention(of_f, x2)
        x2 = x2 + feed_forward(of_g, x1)
    return x1, x2


@pytest.mark.slow
def test_reversible_layers_and_their_gradients_are_those_of_the_loop(normal):
    with jax.enable_x64(True):
        inputs = jax.tree.map(lambda x: x.astype(jnp.float64), arrays(normal))
        weights = [np.random.default_rng(1).standard_normal((B, T, D)) for _ in range(2)]

        def both(function):
            outputs, pull = jax.vjp(function, *inputs)
            return outputs, pull(tuple(jnp.asarray(w) for w in weights))

        ours = partial(reversible_layers, f=attention, g=feed_forward)
        for got, want in zip(*(jax.tree.leaves(jax.jit(both, static_argnums=0)(x)) for x in (ours, loop)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_branches_with_inputs_and_aux_have_the_gradients_of_the_loop(normal):
    """Three branches, so that the streams change places; shared inputs, integers, and aux that is differentiated."""
    x1, x2, parameters = arrays(normal)
    layers, shared = {"weights": parameters, "number": jnp.arange(L)}, {"factor": jnp.float32(0.7), "flag": True}

    def attend(layer, shared, x):
        assert shared["flag"] is True
        sign = jnp.where(layer["number"] % 2 == 0, 1.0, -1.0)
        return sign * shared["factor"] * attention(layer["weights"][0], x), {"sum": x.sum(), "number": layer["number"]}

    branches = [attend, lambda layer, shared, x: (feed_forward(layer["weights"][1], x), ()), attend]

    def ours(weights, factor, x1, x2):
        given = {**layers, "weights": weights}, {**shared, "factor": factor}
        (y1, y2), (aux, after) = reversible_branches(x1, x2, *given, branches=branches)
        return jnp.sum(y1 * jnp.cos(y2)) + jnp.sum(aux[2]["sum"] ** 2) + jnp.sum(after[0] ** 2), aux[0]["number"]

    def plain(weights, factor, x1, x2):
        total = 0.0
        for number in range(L):
            layer = {"weights": jax.tree.map(lambda x, n=number: x[n], weights), "number": jnp.int32(number)}
            for place, branch in enumerate(branches):
                y, aux = branch(layer, {**shared, "factor": factor}, x2)
                x1, x2 = x2, x1 + y
                total = total + (aux["sum"] ** 2 if place == 2 else 0.0)
            total = total + jnp.sum(x1**2)
        return total + jnp.sum(x1 * jnp.cos(x2)), jnp.arange(L)

    run = lambda f: jax.jit(jax.value_and_grad(f, (0, 1, 2, 3), has_aux=True))(parameters, shared["factor"], x1, x2)
    for got, want in zip(*(jax.tree.leaves(run(f)) for f in (ours, plain)), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)


def test_memory_for_the_gradient_does_not_grow_with_the_layers():
    x = jax.ShapeDtypeStruct((4, 256, 32), jnp.float32)

    def measured(layers):
        weights = jax.ShapeDtypeStruct((layers, 32, 32), jnp.float32)
        square = lambda w, x: jnp.tanh(jnp.einsum("BTD,DE->BTE", x, w))
        loss = lambda a, b, w: reversible_layers(a, b, (w, w), f=square, g=square)[0].sum()
        compiled = jax.jit(jax.grad(loss, (0, 1, 2))).lower(x, x, weights).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    assert measured(16) < measured(2) + 4 * 256 * 32 * 4  # 14 more layers add less than one activation


def test_errors_name_the_axis(normal, unchecked):
    x1, x2, parameters = arrays(normal)
    with pytest.raises(ValueError, match="x2: axis T of .* expected 5 as in x1, got 4"):
        reversible_layers(x1, x2[:, :4], parameters, f=attention, g=feed_forward)
