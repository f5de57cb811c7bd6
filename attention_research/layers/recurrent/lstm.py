"""Long short-term memory, Hochreiter & Schmidhuber 1997, with a forget gate."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.recurrent import lstm_cell
from attention_research.layers.recurrent.weights import input_kernel, state_kernel, zeros
from attention_research.signatures import Given, Positive


class LSTMCell(nnx.Module):
    """An LSTM cell with the state "hidden" and "cell" [B D].

    Kernels [I 4D] and [D 4D] are in the order i, f, g, o; the bias is [4D].

    >>> cell = LSTMCell(width=4, input_width=3, rngs=nnx.Rngs(0))
    >>> state = cell(jnp.ones((2, 3)), cell.initial(2, jnp.float32))
    >>> jax.tree.map(jnp.shape, state)
    {'cell': (2, 4), 'hidden': (2, 4)}
    """

    def __init__(self, *, width: Positive, input_width: Given[int], rngs: nnx.Rngs):
        self.width = width
        self.input_kernel = input_kernel(input_width, width, 4, rngs)
        self.state_kernel = state_kernel(width, 4, rngs)
        self.bias = zeros(4 * width)

    def initial(self, batch: int, dtype: Any) -> dict[str, Array]:
        """The initial state: zeros."""
        return {name: jnp.zeros((batch, self.width), dtype) for name in ("hidden", "cell")}

    def __call__(self, x: Float[Array, "B I"], state: dict[str, Float[Array, "B D"]]) -> dict[str, Float[Array, "B D"]]:
        kernels = self.input_kernel[...], self.state_kernel[...]
        hidden, cell = lstm_cell(x, state["hidden"], state["cell"], *kernels, self.bias[...])
        return {"hidden": hidden, "cell": cell}
