"""Parameters U(-scale, scale): Sutskever et al. 2014, section 3.4 (0.08), Luong et al. 2015, section 4 (0.1)."""

from __future__ import annotations

import jax
from flax import nnx
from jaxtyping import Array

from attention_research.layers.initialization.redraw import owners, redraw, starts_as_stated
from attention_research.signatures import PositiveFloat


class Uniform:
    """Initializes parameters, including biases and tables, from U(-scale, scale).

    Gains, offsets and the bias of an open forget gate start as their layers say. `scale` is the largest absolute value.
    """

    def __init__(self, *, scale: PositiveFloat = 0.08):
        self.scale = scale

    def __call__(self, module: nnx.Module, rngs: nnx.Rngs) -> None:
        """Replaces the values of the parameters of the module."""

        def draw(name: str, value: Array, key: Array) -> Array:
            if starts_as_stated(owners(module, name)[-1], name.rpartition(".")[2]):
                return value
            return jax.random.uniform(key, value.shape, value.dtype, -self.scale, self.scale)

        redraw(module, draw, rngs)
