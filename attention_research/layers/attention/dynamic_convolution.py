"""Dynamic convolution, Wu et al. 2019 (arXiv 1901.10430), section 4: c_i = sum_w softmax(f(g_i))_w g_(i+w-left).

Every position predicts its own filters from itself alone; f(g)_nw = sum_d g_d K_dnw + k_nw. In the paper f has no bias
and N heads share filters among D / N neighbouring channels; the run of Narang et al. 2021 has nine biased dense layers
D -> D, one a tap (N = D, the default here), from the output of the gated linear unit, and made up for their parameters
by a narrower feed-forward (512). The nine are one matrix [D, N W] here. The block around the convolution is
`GatedConvolution`'s.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import project
from attention_research.layers.attention.gated_convolution import GatedConvolution


class DynamicConvolution(GatedConvolution):
    """K [D N*W], the taps of a filter side by side; at first N(0, 1/(W D)) cut off at two deviations, as released.

    Parameters: 4(D^2 + D) + D + (D + 1) N W.
    """

    def __init__(self, *, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        columns, start = self.num_filters * self.kernel_width, jax.nn.initializers.truncated_normal
        self.filter_kernel = nnx.Param(
            start((self.kernel_width * self.width) ** -0.5)(rngs.params(), (self.width, columns), jnp.float32)
        )
        self.filter_bias = nnx.Param(jnp.zeros((columns,), jnp.float32))

    def filter_logits(self, g: Float[Array, "B T D"]) -> Float[Array, "B T N W"]:
        """f(g), position by position."""
        logits = project(g, self.filter_kernel[...], self.filter_bias[...])
        return logits.reshape(*g.shape[:2], self.num_filters, self.kernel_width)
