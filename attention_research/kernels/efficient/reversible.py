"""Reversible residual layers, Gomez et al. 2017 (arXiv 1707.04585), section 3.1: y1 = x1 + f(x2), y2 = x2 + g(y1).

In the Reformer, f is attention and g is the feed-forward layer. The inputs of layers are not stored for the gradient.
They are recomputed from the outputs, x2 = y2 - g(y1) and x1 = y1 - f(x2), so that memory does not grow with the number
of layers. The recomputed inputs have rounding errors; in bfloat16, these grow from layer to layer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax import lax
from jaxtyping import Array, Float

from attention_research.kernels.derivatives import both_modes
from attention_research.kernels.shapes import check_shapes

Layer = Callable[[Any, Array], Array]
Pair = tuple[Float[Array, "B T D"], Float[Array, "B T D"]]


def reversible_layers(
    x1: Float[Array, "B T D"], x2: Float[Array, "B T D"], parameters: tuple[Any, Any], *, f: Layer, g: Layer
) -> Pair:
    """Returns (y1, y2) after L layers.

    `parameters` holds the parameters of f and of g, pytrees of float arrays with a leading axis L. f and g are called
    as f(parameters of one layer, x) and return an array of x's shape. They must be pure, because the gradient calls
    them again. Everything that is differentiated must be in `parameters`, not closed over. Raises ValueError naming the
    axis.

    >>> x, parameters = jnp.ones((1, 2, 3)), (jnp.array([1.0, 1.0]), jnp.array([1.0, 1.0]))  # two layers
    >>> scale = lambda factor, x: factor * x
    >>> y1, y2 = reversible_layers(x, x, parameters, f=scale, g=scale)
    >>> y1[0, 0, 0].item(), y2[0, 0, 0].item()  # (1, 1) -> (2, 3) -> (5, 8)
    (5.0, 8.0)
    """
    check_shapes(x1=(x1, "B T D"), x2=(x2, "B T D"))
    plain = partial(_layers, f, g)
    fast = jax.custom_vjp(plain)
    fast.defvjp(partial(_forward, f, g), partial(_backward, f, g))
    return both_modes(fast, plain)(parameters, x1, x2)


def _layers(f: Layer, g: Layer, parameters: tuple[Any, Any], x1: Array, x2: Array) -> Pair:
    def layer(pair, parameters):
        y1 = pair[0] + f(parameters[0], pair[1])
        return (y1, pair[1] + g(parameters[1], y1)), None

    return lax.scan(layer, (x1, x2), parameters)[0]


def _forward(f: Layer, g: Layer, parameters: tuple[Any, Any], x1: Array, x2: Array) -> tuple[Pair, tuple[Any, Pair]]:
    pair = _layers(f, g, parameters, x1, x2)
    return pair, (parameters, pair)


def _backward(f: Layer, g: Layer, kept: tuple[Any, Pair], cotangents: Pair) -> tuple[Any, Array, Array]:
    parameters, pair = kept

    def layer(carry, parameters):
        (y1, y2), (d1, d2) = carry
        of_y1, pull_g = jax.vjp(g, parameters[1], y1)
        x2 = y2 - of_y1
        for_g, through_g = pull_g(d2)
        d1 = d1 + through_g
        of_x2, pull_f = jax.vjp(f, parameters[0], x2)
        for_f, through_f = pull_f(d1)
        return ((y1 - of_x2, x2), (d1, d2 + through_f)), (for_f, for_g)

    (_, (d1, d2)), gradients = lax.scan(layer, (pair, cotangents), parameters, reverse=True)
    return gradients, d1, d2
