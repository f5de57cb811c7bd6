"""The channel and spatial attention of SCA-CNN without a decoder, after Chen et al. 2017 (arXiv 1611.05594), section 3.

In the paper, both depend on the state h of the decoder. A classifier has no decoder, so the terms W_hs h and W_hc h are
omitted; this equals a constant state, whose terms the biases contain. The weights are distributions over channels and
over positions. Each is multiplied by its number of entries, so that the mean of the weights is 1 (`kernels.sca`,
`rescaled`).
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.vision import sca
from attention_research.layers.vision.gates.excitation import glorot_uniform
from attention_research.signatures import Given, Positive


class SCA(nnx.Module):
    """SCA attention of a feature map. `attention_width` is the width of both tanh layers."""

    def __init__(self, *, attention_width: Positive = 16, channels: Given[int], rngs: nnx.Rngs):
        width = attention_width
        drawn = lambda *shape: nnx.Param(glorot_uniform(rngs.params(), shape, jnp.float32))
        vector = lambda: nnx.Param(glorot_uniform(rngs.params(), (width, 1), jnp.float32)[:, 0])
        zeros = lambda: nnx.Param(jnp.zeros((width,), jnp.float32))
        self.spatial_kernel, self.spatial_bias, self.spatial_vector = drawn(channels, width), zeros(), vector()
        self.channel_kernel, self.channel_bias, self.channel_vector = vector(), zeros(), vector()

    def __call__(
        self, x: Float[Array, "B Y X C"], *, training: bool
    ) -> tuple[Float[Array, "B Y X C"], dict[str, Array]]:
        """Returns (x times its weights, {"channels": [B C], "pixels": [B Y X]}, the two distributions)."""
        del training
        state, stateless = jnp.zeros((x.shape[0], 1), x.dtype), jnp.zeros((1, self.spatial_bias.shape[0]), jnp.float32)
        x, pixels, channels = sca(
            x, state,
            self.spatial_kernel[...], self.spatial_bias[...], stateless, self.spatial_vector[...],
            self.channel_kernel[...], self.channel_bias[...], stateless, self.channel_vector[...],
            rescaled=True,
        )  # fmt: skip
        return x, {"channels": channels, "pixels": pixels}
