"""CBAM's spatial attention alone, Woo et al. 2018 (arXiv 1807.06521), equation 3: a convolution gives a gate per pixel.

The paper's convolution has no bias. `normalized_spatial` is the version of the released code, which normalizes the
logits.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.errors import ConfigError
from attention_research.kernels import spatial_attention
from attention_research.layers.vision.gates.excitation import glorot_uniform
from attention_research.signatures import Given, Positive


def spatial_kernel(size: int, rngs: nnx.Rngs) -> nnx.Param:
    """A kernel [size size 2 1] over the mean and maximum of the channels. Raises ConfigError for an even size."""
    if size % 2 == 0:
        raise ConfigError(f"gate.size: expected an odd number, got {size}")
    return nnx.Param(glorot_uniform(rngs.params(), (size, size, 2, 1), jnp.float32))


class SpatialGate(nnx.Module):
    """Spatial attention with a kernel [size size 2 1] over the mean and maximum of the channels.

    `size` is odd, and 7 in the paper.
    """

    def __init__(self, *, size: Positive = 7, channels: Given[int], rngs: nnx.Rngs):
        del channels
        self.kernel = spatial_kernel(size, rngs)

    def __call__(
        self, x: Float[Array, "B Y X C"], *, training: bool
    ) -> tuple[Float[Array, "B Y X C"], dict[str, Array]]:
        """Returns (x times its gates, {"pixels": the gates [B Y X]})."""
        del training
        x, pixels = spatial_attention(x, self.kernel[...])
        return x, {"pixels": pixels}
