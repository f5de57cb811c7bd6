"""Dynamic convolution, Wu et al. 2019 (arXiv 1901.10430), section 4: c_i = sum_w softmax(f(g_i))_w g_(i+w-left).

Each position predicts its own filters from its own input alone: f(g)_nw = sum_d g_d K_dnw + k_nw. In the paper, f has
no bias, and each of N heads has one filter for its D / N neighbouring channels. The run of Narang et al. 2021 has nine
dense layers D -> D with biases, one for each tap (N = D, the default here), applied to the output of the gated linear
unit; a narrower feed-forward (512) compensates for their parameters. Here the nine layers are one matrix [D, N W]. The
block around the convolution is that of `GatedConvolution`.
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
    """Convolution with filters that each position predicts. Parameters: 4(D^2 + D) + D + (D + 1) N W.

    K [D N*W] holds the taps of a filter next to each other. It is initialized from N(0, 1/(W D)), truncated at two
    standard deviations, as in the release.
    """

    def __init__(self, *, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        columns, start = self.num_filters * self.kernel_width, jax.nn.initializers.truncated_normal
        self.filter_kernel = nnx.Param(
            start((self.kernel_width * self.width) ** -0.5)(rngs.params(), (self.width, columns), jnp.float32)
        )
        self.filter_bias = nnx.Param(jnp.zeros((columns,), jnp.float32))

    def filter_logits(self, g: Float[Array, "B T D"]) -> Float[Array, "B T N W"]:
        """f(g) at each position."""
        logits = project(g, self.filter_kernel[...], self.filter_bias[...])
        return logits.reshape(*g.shape[:2], self.num_filters, self.kernel_width)
