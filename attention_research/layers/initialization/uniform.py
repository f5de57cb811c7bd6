"""All parameters U(-scale, scale): Sutskever et al. 2014, section 3.4 (0.08), Luong et al. 2015, section 4 (0.1)."""

from __future__ import annotations

import jax
from flax import nnx

from attention_research.layers.initialization.redraw import redraw
from attention_research.signatures import PositiveFloat


class Uniform:
    """Biases and tables too."""

    def __init__(self, *, scale: PositiveFloat = 0.08):
        self.scale = scale

    def __call__(self, module: nnx.Module, rngs: nnx.Rngs) -> None:
        """Draws every parameter of the module anew."""
        draw = lambda name, value, key: jax.random.uniform(key, value.shape, value.dtype, -self.scale, self.scale)
        redraw(module, draw, rngs)
