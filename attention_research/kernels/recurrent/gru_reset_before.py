"""The gated unit of Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), appendix A.1.1; also Cho et al. 2014a.

    r = sigma(x W_r + s U_r + b_r)
    z = sigma(x W_z + s U_z + b_z)
    s~ = tanh(x W + (r s) U + b)
    s' = (1 - z) s + z s~           z takes the new state

The gates are in the order r, z, s~. Unlike in the GRU of PyTorch and Flax, the reset gate is applied to the state
*before* the product, so that each gate has only one bias, and z has the opposite meaning. The paper omits the biases
from its equations ("to make the equations uncluttered").
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attention_research.kernels.projection import project
from attention_research.kernels.recurrent.gates import check_gates


def gru_reset_before_cell(
    x: Float[Array, "B I"],
    hidden: Float[Array, "B D"],
    input_kernel: Float[Array, "I 3*D"],
    state_kernel: Float[Array, "D 3*D"],
    bias: Float[Array, "3*D"],
) -> Float[Array, "B D"]:
    """The next state, in x's dtype. Raises ValueError naming the argument and the axis.

    >>> x, hidden, kernels = jnp.ones((2, 3)), jnp.ones((2, 4)), (jnp.zeros((3, 12)), jnp.zeros((4, 12)))
    >>> gru_reset_before_cell(x, hidden, *kernels, jnp.zeros(12))[0].tolist()  # gates of 1/2
    [0.5, 0.5, 0.5, 0.5]
    """
    check_gates(3, x, hidden, input_kernel, state_kernel, bias=(bias, 3))
    width = hidden.shape[1]
    reset_x, take_x, new_x = jnp.split(project(x, input_kernel, bias), 3, axis=-1)
    reset_h, take_h = jnp.split(project(hidden, state_kernel[:, : 2 * width]), 2, axis=-1)
    reset, take = jax.nn.sigmoid(reset_x + reset_h), jax.nn.sigmoid(take_x + take_h)
    new = jnp.tanh(new_x + project(reset * hidden, state_kernel[:, 2 * width :]))
    return hidden + take * (new - hidden)
