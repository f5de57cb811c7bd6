"""Lightweight convolution, Wu et al. 2019 (arXiv 1901.10430), section 3: c_i = sum_w softmax(F)_w g_(i+w-left).

The filters F [N W] are parameters, the same at every position. The paper's N heads share one among D / N neighbouring
channels; the run of Narang et al. 2021 asked for sharing too, but the released class drops that argument: every channel
has its own (N = D), which is the default here. The block around the convolution is `GatedConvolution`'s.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.attention.gated_convolution import GatedConvolution


class LightweightConvolution(GatedConvolution):
    """F at first N(0, 1/W) cut off at two deviations, as released. Parameters: 4(D^2 + D) + D + N W."""

    def __init__(self, *, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        start = jax.nn.initializers.truncated_normal(self.kernel_width**-0.5)
        self.filter_kernel = nnx.Param(start(rngs.params(), (self.num_filters, self.kernel_width), jnp.float32))

    def filter_logits(self, g: Float[Array, "B T D"]) -> Float[Array, "1 1 N W"]:
        """F, whatever the input."""
        del g
        return self.filter_kernel[...][None, None]
