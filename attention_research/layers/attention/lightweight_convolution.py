"""Lightweight convolution, Wu et al. 2019 (arXiv 1901.10430), section 3: c_i = sum_w softmax(F)_w g_(i+w-left).

The filters F [N W] are parameters, the same at every position. In the paper, each of N heads has one filter for its
D / N neighbouring channels. The configuration of Narang et al. 2021 also asks for sharing, but the released class
ignores that argument: every channel has its own filter (N = D), which is the default here. The block around the
convolution is that of `GatedConvolution`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.attention.gated_convolution import GatedConvolution


class LightweightConvolution(GatedConvolution):
    """Convolution with the same learned filters at every position. Parameters: 4(D^2 + D) + D + N W.

    F is initialized from N(0, 1/W), truncated at two standard deviations, as in the release.
    """

    def __init__(self, *, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        start = jax.nn.initializers.truncated_normal(self.kernel_width**-0.5)
        self.filter_kernel = nnx.Param(start(rngs.params(), (self.num_filters, self.kernel_width), jnp.float32))

    def filter_logits(self, g: Float[Array, "B T D"]) -> Float[Array, "1 1 N W"]:
        """F, independent of the input."""
        del g
        return self.filter_kernel[...][None, None]
