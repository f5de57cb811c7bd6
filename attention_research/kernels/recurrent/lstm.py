"""Long short-term memory, Hochreiter & Schmidhuber 1997, with the forget gate of Gers, Schmidhuber & Cummins 2000.

    i, f, g, o = x W + h U + b      split in this order, which is PyTorch's and cuDNN's
    c' = sigma(f) c + sigma(i) tanh(g)
    h' = sigma(o) tanh(c')

This is `torch.nn.LSTM`, without peepholes (Graves 2013 has them). Only the sum of PyTorch's two biases matters, so that
there is one bias here. Flax's `LSTMCell` is the same with one dense layer per gate, and its state is the pair (c, h).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attention_research.kernels.projection import project
from attention_research.kernels.recurrent.gates import check_gates


def lstm_cell(
    x: Float[Array, "B I"],
    hidden: Float[Array, "B D"],
    cell: Float[Array, "B D"],
    input_kernel: Float[Array, "I 4*D"],
    state_kernel: Float[Array, "D 4*D"],
    bias: Float[Array, "4*D"],
) -> tuple[Float[Array, "B D"], Float[Array, "B D"]]:
    """Returns the next (hidden, cell), in x's dtype. Raises ValueError naming the argument and the axis.

    >>> x, hidden, cell = jnp.ones((2, 3)), jnp.ones((2, 4)), jnp.ones((2, 4))
    >>> hidden, cell = lstm_cell(x, hidden, cell, jnp.zeros((3, 16)), jnp.zeros((4, 16)), jnp.zeros(16))
    >>> cell[0].tolist()  # the forget gate is 1/2
    [0.5, 0.5, 0.5, 0.5]
    """
    check_gates(4, x, hidden, input_kernel, state_kernel, bias=(bias, 4))
    if cell.shape != hidden.shape or cell.dtype != hidden.dtype:
        raise ValueError(f"cell: expected {list(hidden.shape)} {hidden.dtype}, got {list(cell.shape)} {cell.dtype}")
    gates = project(x, input_kernel, bias) + project(hidden, state_kernel)
    write, keep, new, show = jnp.split(gates, 4, axis=-1)
    cell = jax.nn.sigmoid(keep) * cell + jax.nn.sigmoid(write) * jnp.tanh(new)
    return jax.nn.sigmoid(show) * jnp.tanh(cell), cell
