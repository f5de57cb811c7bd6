"""Dynamic convolution, Wu et al. 2019 (arXiv 1901.10430), section 4: c_i = sum_w softmax(f(g_i))_w g_(i+w-left).

Every position predicts its own filters from itself alone; f(g)_nw = sum_d g_d K_dnw + k_nw. In the paper f has no bias
and N heads share filters among D / N neighbouring channels; the run of Narang et al. 2021 has nine biased dense layers
D -> D, one a tap (N = D, the default here), from the output of the gated linear unit, and made up for their parameters
by a narrower feed-forward (512). The nine are one matrix [D, N W] here. The block around the convolution is
`GatedConvolution`'s.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import project
from attention_research.layers.attention.gated_convolution import GatedConvolution
from attention_research.registry import Positive


class DynamicConvolution(GatedConvolution):
    """K [D N*W], the taps of a filter side by side; at first N(0, 1/(W D)) cut off at two deviations, as released.

    Parameters: 4(D^2 + D) + D + (D + 1) N W.
    """

    def __init__(
        self, *, width: Positive, num_filters: Positive | None = None, kernel_width: Positive = 9, rngs: nnx.Rngs
    ):
        super().__init__(width=width, num_filters=num_filters, kernel_width=kernel_width, rngs=rngs)
        columns, start = self.num_filters * kernel_width, jax.nn.initializers.truncated_normal
        self.filter_kernel = nnx.Param(
            start((kernel_width * width) ** -0.5)(rngs.params(), (width, columns), jnp.float32)
        )
        self.filter_bias = nnx.Param(jnp.zeros((columns,), jnp.float32))

    def filter_logits(self, g: Float[Array, "B T D"]) -> Float[Array, "B T N W"]:
        """f(g), position by position."""
        logits = project(g, self.filter_kernel[...], self.filter_bias[...])
        return logits.reshape(*g.shape[:2], self.num_filters, self.kernel_width)
