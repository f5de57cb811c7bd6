"""Depthwise separable convolution, Chollet 2017 (arXiv 1610.02357), section 2, along a sequence.

c_i = sum_w k_w * x_(i+w-left) + d, y = c P + p: each channel has its own filter of W taps, and one matrix mixes the
channels of each position. Centred: left = W // 2. Causal: left = W - 1, with zeros before the first position.

As in the release of Narang et al. 2021 (Mesh TensorFlow's SeparableConv1DLayer), both parts have biases. The release
zeroes inputs where the token id is 0: at padding and, in training, at the decoder's BOS, whose id is also 0. Here a
mask marks padding, and BOS is an ordinary token. In the release, filters read across the examples of a packed row; here
the mask separates packed examples.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.kernels.no_dot_product.lightweight_convolution import advance, convolve
from attention_research.layers.attention.gated_convolution import at_taps
from attention_research.layers.attention.multi_head import Mask
from attention_research.layers.linear import Linear


class SeparableConvolution(nnx.Module):
    """A depthwise separable convolution, [B T I] -> [B T O]. Parameters: I W + I + I O + O.

    k [I W] is initialized from N(0, 1/W), truncated at two standard deviations, as in the release.
    """

    def __init__(self, in_width: int, out_width: int, kernel_width: int, *, rngs: nnx.Rngs):
        self.in_width, self.kernel_width = in_width, kernel_width
        start = jax.nn.initializers.truncated_normal(kernel_width**-0.5)
        self.kernel = nnx.Param(start(rngs.params(), (in_width, kernel_width), jnp.float32))
        self.bias = nnx.Param(jnp.zeros((in_width,), jnp.float32))
        self.pointwise = Linear(in_width, out_width, rngs=rngs)

    def __call__(
        self, x: Float[Array, "B T I"], *, mask: Mask | None = None, is_causal: bool = False
    ) -> Float[Array, "B T O"]:
        """The convolution of x. Inputs that `mask` hides from a position count as 0."""
        left = self.kernel_width - 1 if is_causal else self.kernel_width // 2
        seen = within_reach(mask, x.shape[0], self.kernel_width, left)
        return self._pointwise(convolve(x, self.kernel[...][None, None], left, seen))

    def start(self, batch: int, dtype: Any) -> Float[Array, "B P I"]:
        """The cache before the first position: P = W - 1 zero inputs."""
        return jnp.zeros((batch, self.kernel_width - 1, self.in_width), dtype)

    def step(
        self, x: Float[Array, "B 1 I"], inputs: Float[Array, "B P I"]
    ) -> tuple[Float[Array, "B 1 O"], Float[Array, "B P I"]]:
        """Decodes the next position of the causal convolution. Returns (y, the last P inputs)."""
        inputs, convolved = advance(inputs, x[:, 0], self.kernel[...][None, None])
        return self._pointwise(convolved[:, None]), inputs

    def _pointwise(self, convolved: Float[Array, "B T I"]) -> Float[Array, "B T O"]:
        return self.pointwise(convolved + self.bias[...].astype(convolved.dtype))


def within_reach(
    mask: Mask | None, batch: int, kernel_width: int, left: int
) -> Bool[Array, "B T"] | Bool[Array, "B T W"] | None:
    """Converts an attention mask for convolutions: to a padding mask [B T], or to a mask of the W taps [B T W]."""
    if mask is None:
        return None
    if mask.shape[1:3] == (1, 1):
        return jnp.broadcast_to(mask[:, 0, 0], (batch, mask.shape[3]))
    taps = at_taps(mask, kernel_width, left)
    return jnp.broadcast_to(taps, (batch, *taps.shape[1:]))
