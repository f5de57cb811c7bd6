"""The initialization of RNNsearch, Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), appendix B.1."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.layers.initialization.redraw import redraw
from attention_research.layers.recurrent.weights import orthogonal_gates


def start(name: str, value: Array, key: Array) -> Array:
    """The initial value of the parameter `name`.

    Recurrent matrices are orthogonal for each gate; W_a and U_a are N(0, 0.001^2); v_a and biases are 0; all other
    parameters are N(0, 0.01^2).
    """
    last = name.rpartition(".")[2]
    if last == "state_kernel":
        width = value.shape[0]
        return orthogonal_gates(key, width, value.shape[1] // width)
    if value.ndim < 2:
        return jnp.zeros_like(value)
    deviation = 0.001 if "alignment." in name else 0.01
    return deviation * jax.random.normal(key, value.shape, value.dtype)


class BahdanauInitialization:
    """Initializes parameters as the paper does, selected by their names."""

    def __call__(self, module: nnx.Module, rngs: nnx.Rngs) -> None:
        """Replaces the values of all parameters of the module."""
        redraw(module, start, rngs)
