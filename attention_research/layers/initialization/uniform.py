"""All parameters U(-scale, scale): Sutskever et al. 2014, section 3.4 (0.08), Luong et al. 2015, section 4 (0.1)."""

from __future__ import annotations

import jax
from flax import nnx

from attention_research.layers.initialization.redraw import redraw
from attention_research.signatures import PositiveFloat


class Uniform:
    """Initializes all parameters, including biases and tables, from U(-scale, scale).

    `scale` is the largest absolute value.
    """

    def __init__(self, *, scale: PositiveFloat = 0.08):
        self.scale = scale

    def __call__(self, module: nnx.Module, rngs: nnx.Rngs) -> None:
        """Replaces the values of all parameters of the module."""
        draw = lambda name, value, key: jax.random.uniform(key, value.shape, value.dtype, -self.scale, self.scale)
        redraw(module, draw, rngs)
