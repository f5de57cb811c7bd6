"""Convolutional block attention (CBAM), Woo et al. 2018 (arXiv 1807.06521), equation 1:
F' = M_c(F) F, F'' = M_s(F') F'.

Channel attention comes before spatial attention, the order that the paper found best. Images are [B Y X C].
"""

from __future__ import annotations

from jaxtyping import Array, Bool, Float

from attention_research.kernels.vision.channel_attention import channel_attention
from attention_research.kernels.vision.spatial_attention import spatial_attention


def cbam(
    x: Float[Array, "B Y X C"],
    reduce_kernel: Float[Array, "C R"],
    expand_kernel: Float[Array, "R C"],
    kernel: Float[Array, "Ky Kx 2 1"],
    reduce_bias: Float[Array, "R"] | None = None,
    expand_bias: Float[Array, "C"] | None = None,
    bias: Float[Array, ""] | None = None,
    *,
    mask: Bool[Array, "B Y X"] | None = None,
) -> tuple[Float[Array, "B Y X C"], Float[Array, "B C"], Float[Array, "B Y X"]]:
    """Applies `channel_attention`, then `spatial_attention`. Returns (F'', gates of channels, gates of pixels).

    `mask` is True at non-padding pixels. Padding is excluded from pooling, and its output is 0. Raises ValueError
    naming the axis.

    >>> x = jnp.ones((1, 4, 5, 8))
    >>> y, channels, places = cbam(x, jnp.ones((8, 2)), jnp.ones((2, 8)), jnp.ones((3, 3, 2, 1)))
    >>> y.shape, channels.shape, places.shape
    ((1, 4, 5, 8), (1, 8), (1, 4, 5))
    """
    x, channels = channel_attention(x, reduce_kernel, expand_kernel, reduce_bias, expand_bias, mask=mask)
    x, pixels = spatial_attention(x, kernel, bias, mask=mask)
    return x, channels, pixels
