"""The initialization of RNNsearch, Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), appendix B.1."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.layers.alignment.scores.score import Score
from attention_research.layers.initialization.redraw import owners, redraw, starts_as_stated
from attention_research.layers.recurrent.weights import orthogonal_gates


def start(module: nnx.Module, name: str, value: Array, key: Array) -> Array:
    """The initial value of the parameter `name`.

    Recurrent matrices are orthogonal for each gate; W_a and U_a are N(0, 0.001^2); v_a and biases are 0; all other
    matrices are N(0, 0.01^2). Parameters that the paper does not have stay: gains, offsets, the bias of an open forget
    gate, and vectors such as the v of a monotonic energy, which has no gradient at 0.
    """
    last, owner = name.rpartition(".")[2], owners(module, name)[-1]
    if last == "state_kernel":
        width = value.shape[0]
        return orthogonal_gates(key, width, value.shape[1] // width)
    if starts_as_stated(owner, last):
        return value
    if last.endswith("bias") or (last == "v" and isinstance(owner, Score)):
        return jnp.zeros_like(value)
    if value.ndim < 2:
        return value
    deviation = 0.001 if "alignment." in name else 0.01
    return deviation * jax.random.normal(key, value.shape, value.dtype)


class BahdanauInitialization:
    """Initializes parameters as the paper does, selected by their names."""

    def __call__(self, module: nnx.Module, rngs: nnx.Rngs) -> None:
        """Replaces the values of the parameters of the module."""
        redraw(module, partial(start, module), rngs)
