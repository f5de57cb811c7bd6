"""The simple recurrent network, Elman 1990: h' = tanh(x W + h U + b)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.recurrent import vanilla_cell
from attention_research.layers.recurrent.weights import input_kernel, state_kernel, zeros
from attention_research.signatures import Given, Positive


class VanillaCell(nnx.Module):
    """A simple recurrent cell with the state "hidden" [B D], kernels [I D] and [D D], and bias [D]."""

    def __init__(self, *, width: Positive, input_width: Given[int], rngs: nnx.Rngs):
        self.width = width
        self.input_kernel = input_kernel(input_width, width, 1, rngs)
        self.state_kernel = state_kernel(width, 1, rngs)
        self.bias = zeros(width)

    def initial(self, batch: int, dtype: Any) -> dict[str, Array]:
        """The initial state: zeros."""
        return {"hidden": jnp.zeros((batch, self.width), dtype)}

    def __call__(self, x: Float[Array, "B I"], state: dict[str, Float[Array, "B D"]]) -> dict[str, Float[Array, "B D"]]:
        kernels = self.input_kernel[...], self.state_kernel[...]
        return {"hidden": vanilla_cell(x, state["hidden"], *kernels, self.bias[...])}
