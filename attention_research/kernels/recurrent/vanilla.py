"""The simple recurrent network, Elman 1990: h' = tanh(x W + h U + b).

This is `torch.nn.RNN`, of whose two biases only the sum matters, and Flax's `SimpleCell`.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from attention_research.kernels.projection import project
from attention_research.kernels.recurrent.gates import check_gates


def vanilla_cell(
    x: Float[Array, "B I"],
    hidden: Float[Array, "B D"],
    input_kernel: Float[Array, "I D"],
    state_kernel: Float[Array, "D D"],
    bias: Float[Array, "D"],
) -> Float[Array, "B D"]:
    """The next state, in x's dtype. Raises ValueError naming the argument and the axis.

    >>> vanilla_cell(jnp.ones((2, 3)), jnp.ones((2, 4)), jnp.ones((3, 4)), jnp.ones((4, 4)), jnp.zeros(4)).shape
    (2, 4)
    """
    check_gates(1, x, hidden, input_kernel, state_kernel, bias=(bias, 1))
    return jnp.tanh(project(x, input_kernel, bias) + project(hidden, state_kernel))
