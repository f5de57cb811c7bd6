"""Gated recurrent unit with the reset gate after the product: Cho et al. 2014b (arXiv 1409.1259), PyTorch, cuDNN.

    r = sigma(x W_r + h U_r + b_r)
    z = sigma(x W_z + h U_z + b_z)
    n = tanh(x W_n + b_n + r (h U_n + b_hn))
    h' = (1 - z) n + z h            z keeps the old state

The gates are in the order r, z, n. Only n needs two biases (b_hn is inside the reset gate). `torch.nn.GRU` also has two
biases for r and z, but only their sum matters. Flax's `GRUCell` computes the same function. Bahdanau et al. 2015 apply
the reset gate before the product and use z with the opposite meaning: `gru_reset_before_cell`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attention_research.kernels.projection import project
from attention_research.kernels.recurrent.gates import check_gates


def gru_cell(
    x: Float[Array, "B I"],
    hidden: Float[Array, "B D"],
    input_kernel: Float[Array, "I 3*D"],
    state_kernel: Float[Array, "D 3*D"],
    input_bias: Float[Array, "3*D"],
    state_bias: Float[Array, "D"],
) -> Float[Array, "B D"]:
    """The next state, in x's dtype. `state_bias` is b_hn. Raises ValueError naming the argument and the axis.

    >>> x, hidden, kernels = jnp.ones((2, 3)), jnp.ones((2, 4)), (jnp.zeros((3, 12)), jnp.zeros((4, 12)))
    >>> gru_cell(x, hidden, *kernels, jnp.zeros(12), jnp.zeros(4))[0].tolist()  # gates of 1/2
    [0.5, 0.5, 0.5, 0.5]
    """
    check_gates(3, x, hidden, input_kernel, state_kernel, input_bias=(input_bias, 3), state_bias=(state_bias, 1))
    reset_x, keep_x, new_x = jnp.split(project(x, input_kernel, input_bias), 3, axis=-1)
    reset_h, keep_h, new_h = jnp.split(project(hidden, state_kernel), 3, axis=-1)
    reset, keep = jax.nn.sigmoid(reset_x + reset_h), jax.nn.sigmoid(keep_x + keep_h)
    new = jnp.tanh(new_x + reset * (new_h + state_bias.astype(x.dtype)))
    return new + keep * (hidden - new)
