"""PyTorch's default start of linear layers: kernels and biases U(-1 / sqrt(fan_in), 1 / sqrt(fan_in)).

`nn.Linear` states it as Kaiming-uniform with a = sqrt(5). The variance of a kernel is 1 / (3 fan_in), a third of that
of Glorot's start for a square kernel.
"""

from __future__ import annotations

import jax
from flax import nnx
from jaxtyping import Array

from attention_research.layers.initialization.redraw import owners, redraw
from attention_research.layers.linear import Linear


class PyTorchInitialization:
    """The kernels and biases of all `Linear` layers, and the kernel of an output layer. All else stays, such as filters
    of convolutions and recurrent matrices."""

    def __call__(self, module: nnx.Module, rngs: nnx.Rngs) -> None:
        """Replaces the values of the linear layers of the module."""

        def draw(name: str, value: Array, key: Array) -> Array:
            owner, last = owners(module, name)[-1], name.rpartition(".")[2]
            if isinstance(owner, Linear):
                fan_in = owner.kernel.shape[-2]
            elif last == "output_kernel":
                fan_in = value.shape[-2]
            else:
                return value
            return jax.random.uniform(key, value.shape, value.dtype, -(fan_in**-0.5), fan_in**-0.5)

        redraw(module, draw, rngs)
