"""The recurrent convolution of order 2, Lei et al. 2015 (arXiv 1508.04112), as used by Lei, Barzilay & Jaakkola 2016.

    l_t  = sigmoid(x_t W_l + h_{t-1} U + b_l)
    c1_t = l_t c1_{t-1} + (1 - l_t) (x_t W_1)
    c2_t = l_t c2_{t-1} + (1 - l_t) (c1_{t-1} + x_t W_2)
    h_t  = tanh(c2_t + b)

It is a running average over all ordered pairs of words, adjacent or not, whose decay the gate controls.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.projection import project
from attention_research.layers.recurrent.weights import input_kernel, state_kernel, zeros
from attention_research.signatures import Given, Positive


class RCNNCell(nnx.Module):
    """An RCNN cell with the state "hidden", "first" and "second" [B D].

    The input kernel [I 3D] is in the order l, 1, 2; the state kernel is [D D]; the two biases are [D].
    """

    def __init__(self, *, width: Positive, input_width: Given[int], rngs: nnx.Rngs):
        self.width = width
        self.input_kernel = input_kernel(input_width, width, 3, rngs)
        self.state_kernel = state_kernel(width, 1, rngs)
        self.gate_bias, self.bias = zeros(width), zeros(width)

    def initial(self, batch: int, dtype: Any) -> dict[str, Array]:
        """The initial state: zeros."""
        return {name: jnp.zeros((batch, self.width), dtype) for name in ("hidden", "first", "second")}

    def __call__(self, x: Float[Array, "B I"], state: dict[str, Float[Array, "B D"]]) -> dict[str, Float[Array, "B D"]]:
        to_gate, one, two = jnp.split(project(x, self.input_kernel[...]), 3, axis=-1)
        gate = jax.nn.sigmoid(to_gate + project(state["hidden"], self.state_kernel[...], self.gate_bias[...]))
        first = gate * state["first"] + (1 - gate) * one
        second = gate * state["second"] + (1 - gate) * (state["first"] + two)
        return {"hidden": jnp.tanh(second + self.bias[...].astype(x.dtype)), "first": first, "second": second}
