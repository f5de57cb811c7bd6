"""The gated unit of Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), appendix A.1.1: reset gate before the product."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.recurrent import gru_reset_before_cell
from attention_research.layers.recurrent.weights import input_kernel, state_kernel, zeros
from attention_research.signatures import Given, Positive


class GRUResetBeforeCell(nnx.Module):
    """A GRU cell with the state "hidden" [B D], kernels [I 3D] and [D 3D] in the order r, z, candidate, and bias
    [3D]."""

    def __init__(self, *, width: Positive, input_width: Given[int], rngs: nnx.Rngs):
        self.width = width
        self.input_kernel = input_kernel(input_width, width, 3, rngs)
        self.state_kernel = state_kernel(width, 3, rngs)
        self.bias = zeros(3 * width)

    def initial(self, batch: int, dtype: Any) -> dict[str, Array]:
        """The initial state: zeros."""
        return {"hidden": jnp.zeros((batch, self.width), dtype)}

    def __call__(self, x: Float[Array, "B I"], state: dict[str, Float[Array, "B D"]]) -> dict[str, Float[Array, "B D"]]:
        kernels = self.input_kernel[...], self.state_kernel[...]
        return {"hidden": gru_reset_before_cell(x, state["hidden"], *kernels, self.bias[...])}
