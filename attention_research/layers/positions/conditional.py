"""Conditional positional encodings, Chu et al. 2021 (arXiv 2102.10882), section 3.3, along a sequence.

y_i = x_i + sum_w k_w * x_(i+w-left) + b, with left = W // 2: a depthwise convolution of the embeddings is added to them
(the paper's PEG). Every token learns which tokens stand next to it, and no table limits the length. The paper has
images, and applies the convolution after the first block; this one is applied before the first block.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels.no_dot_product.lightweight_convolution import convolve
from attention_research.layers.attention.multi_head import Mask
from attention_research.layers.convolution.separable import within_reach
from attention_research.signatures import Positive


def placed(
    layer: Callable[..., Array], x: Float[Array, "B T D"], positions: Int[Array, "#B T"], mask: Mask | None
) -> Float[Array, "B T D"]:
    """The output of a position layer, which gets the mask of the self-attention if it reads neighbours."""
    return layer(x, positions, mask) if getattr(layer, "reads_neighbours", False) else layer(x, positions)


class ConditionalPositions(nnx.Module):
    """Adds a depthwise convolution with a kernel [D W] and a bias [D]. The kernel is initialized from N(0, 1/W).

    The convolution has `kernel_width` taps W. It reads neighbours on both sides, so that decoders refuse this kind.
    Padding and the other examples of a packed row count as 0.
    """

    #: The layer takes the argument `mask`, because it reads other positions.
    reads_neighbours = True

    def __init__(self, *, width: Positive, kernel_width: Positive = 3, rngs: nnx.Rngs):
        start = jax.nn.initializers.truncated_normal(kernel_width**-0.5)
        self.kernel = nnx.Param(start(rngs.params(), (width, kernel_width), jnp.float32))
        self.bias = nnx.Param(jnp.zeros((width,), jnp.float32))

    def __call__(
        self, x: Float[Array, "B T D"], positions: Int[Array, "#B T"], mask: Mask | None = None
    ) -> Float[Array, "B T D"]:
        """The embeddings and the convolution. `mask` is that of the self-attention: True where i may attend to j."""
        del positions
        width = self.kernel.shape[1]
        seen = within_reach(mask, x.shape[0], width, width // 2)
        return x + convolve(x, self.kernel[...][None, None], width // 2, seen) + self.bias[...].astype(x.dtype)
