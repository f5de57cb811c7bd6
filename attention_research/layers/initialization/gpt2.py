"""The initialization of GPT-2, Radford et al. 2019, section 2.3, with the standard deviation of the released code.

All kernels and tables are N(0, 0.02^2). The output projections of residual branches are divided by the square root of
the number of branches: 2 L for L layers of attention and a feed-forward. Biases, gains and the filters of convolutions
over single channels keep their initial values.
"""

from __future__ import annotations

import re

import jax
from flax import nnx
from jaxtyping import Array

from attention_research.layers.convolution.separable import SeparableConvolution
from attention_research.layers.initialization.fixup import residual_branches
from attention_research.layers.initialization.redraw import owners, redraw
from attention_research.layers.positions.conditional import ConditionalPositions
from attention_research.signatures import PositiveFloat

#: The last projection of a residual branch.
LAST = re.compile(r"(attention|feed_forward)(_\d+)?(\.experts)?\.output\.kernel$")
#: Layers whose `kernel` is a filter for each channel.
FILTERS = (SeparableConvolution, ConditionalPositions)


class GPT2Initialization:
    """Normal kernels and tables; `deviation` is their standard deviation."""

    def __init__(self, *, deviation: PositiveFloat = 0.02):
        self.deviation = deviation

    def __call__(self, module: nnx.Module, rngs: nnx.Rngs) -> None:
        """Replaces the values of the kernels and tables of the module."""
        branches = max(residual_branches(module), 1)

        def draw(name: str, value: Array, key: Array) -> Array:
            owner = owners(module, name)[-1]
            if not name.endswith(("kernel", "table")) or name.endswith("filter_kernel") or isinstance(owner, FILTERS):
                return value
            deviation = self.deviation / branches**0.5 if LAST.search(name) else self.deviation
            return deviation * jax.random.normal(key, value.shape, value.dtype)

        redraw(module, draw, rngs)
