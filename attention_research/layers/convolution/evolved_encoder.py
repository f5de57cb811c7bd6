"""The branched convolutions of the Evolved Transformer's encoder, So et al. 2019 (arXiv 1901.11117), Figure 3.

h = LN(relu(x W) + [relu(conv3(x)); 0]), y = [sep9(h); 0], where W is [D 4D] without a bias, conv3 a convolution
D -> D/2 with 3 taps without a bias, and sep9 a separable convolution 4D -> D/2 with 9 taps. All are centred. [.; 0]
pads the channels with zeros, to 4D in h and to D in y. This is the layer that Narang et al. 2021 ran (Mesh TensorFlow's
EncoderConvolutionalLayer), without its dropout after each of the three. The inner norm is always a layer norm, whatever
the norms of the block are. Padding and the examples of a packed row are handled as in `layers.convolution.separable`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import sequence_convolution
from attention_research.layers.attention.multi_head import Mask
from attention_research.layers.convolution.separable import SeparableConvolution, within_reach
from attention_research.layers.linear import Linear, glorot_uniform
from attention_research.layers.norms.layer_norm import LayerNorm
from attention_research.signatures import Positive


class EvolvedEncoderConvolution(nnx.Module):
    """Branched convolutions, [B T D] -> [B T D]. `expansion` is the factor 4 of 4D.

    The convolution of the right branch is initialized with Glorot uniform, as in the release.
    Parameters: 4D^2 + 3 D^2/2 + 8D + (9 4D + 4D + 4D D/2 + D/2).

    `right_kernel_width` is the number of taps of conv3, and `kernel_width` that of sep9.
    """

    def __init__(
        self,
        *,
        width: Positive,
        expansion: Positive = 4,
        right_kernel_width: Positive = 3,
        kernel_width: Positive = 9,
        rngs: nnx.Rngs,
    ):
        hidden, half = expansion * width, width // 2
        self.right_kernel_width = right_kernel_width
        self.left = Linear(width, hidden, use_bias=False, rngs=rngs)
        self.right_kernel = nnx.Param(glorot_uniform(rngs.params(), (right_kernel_width, width, half), jnp.float32))
        self.norm = LayerNorm(width=hidden, rngs=rngs)
        self.separable = SeparableConvolution(hidden, half, kernel_width, rngs=rngs)

    def __call__(
        self, x: Float[Array, "B T D"], *, mask: Mask | None = None
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Returns (y, {}). Inputs that `mask` hides from a position count as 0 in each convolution."""
        left, reach = jax.nn.relu(self.left(x)), self.right_kernel_width // 2
        seen = within_reach(mask, x.shape[0], self.right_kernel_width, reach)
        right = jax.nn.relu(sequence_convolution(x, self.right_kernel[...], left=reach, mask=seen))
        hidden = self.norm(left + widened(right, left.shape[-1]))
        return widened(self.separable(hidden, mask=mask), x.shape[-1]), {}


def widened(x: Float[Array, "B T I"], width: int) -> Float[Array, "B T O"]:
    """Pads the channels of x with zeros to `width`."""
    return jnp.pad(x, [(0, 0), (0, 0), (0, width - x.shape[-1])])
