"""Gated recurrent unit, Cho et al. 2014b (arXiv 1409.1259), with the reset gate after the product, as in PyTorch."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.recurrent import gru_cell
from attention_research.layers.recurrent.weights import input_kernel, state_kernel, zeros
from attention_research.signatures import Given, Positive


class GRUCell(nnx.Module):
    """A GRU cell with the state "hidden" [B D] and kernels [I 3D] and [D 3D] in the order r, z, n.

    The input bias is [3D]; the state bias [D] is inside the product with r.

    >>> cell = GRUCell(width=4, input_width=3, rngs=nnx.Rngs(0))
    >>> state = cell(jnp.ones((2, 3)), cell.initial(2, jnp.float32))
    >>> jax.tree.map(jnp.shape, state)
    {'hidden': (2, 4)}
    """

    def __init__(self, *, width: Positive, input_width: Given[int], rngs: nnx.Rngs):
        self.width = width
        self.input_kernel = input_kernel(input_width, width, 3, rngs)
        self.state_kernel = state_kernel(width, 3, rngs)
        self.input_bias, self.state_bias = zeros(3 * width), zeros(width)

    def initial(self, batch: int, dtype: Any) -> dict[str, Array]:
        """The initial state: zeros."""
        return {"hidden": jnp.zeros((batch, self.width), dtype)}

    def __call__(self, x: Float[Array, "B I"], state: dict[str, Float[Array, "B D"]]) -> dict[str, Float[Array, "B D"]]:
        kernels = self.input_kernel[...], self.state_kernel[...]
        return {"hidden": gru_cell(x, state["hidden"], *kernels, self.input_bias[...], self.state_bias[...])}
