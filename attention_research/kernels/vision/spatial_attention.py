"""CBAM's spatial attention, Woo et al. 2018 (arXiv 1807.06521), equation 3:
M_s(F) = sigmoid(conv7x7([avg(F); max(F)])), with avg, max over channels.

Images are [B Y X C]. Input channel 0 of the kernel is the average, and channel 1 is the maximum. In the released code,
the order is reversed, and batch normalization follows the convolution; in evaluation, it is a factor and a bias.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.largest import largest
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.vision.squeeze_excitation import only_real


def spatial_attention(
    x: Float[Array, "B Y X C"],
    kernel: Float[Array, "Ky Kx 2 1"],
    bias: Float[Array, ""] | None = None,
    *,
    mask: Bool[Array, "B Y X"] | None = None,
) -> tuple[Float[Array, "B Y X C"], Float[Array, "B Y X"]]:
    """Returns (x times its gates, the gates in float32). Each pixel has a gate in (0, 1); they are not a distribution.

    The image is padded with zeros, also at pixels where `mask` is False (True = not padding). The result for a padded
    image is therefore the same as without padding, with gates 0 at the padding. Raises ValueError naming the axis, also
    for kernels of even size.

    >>> x = jnp.ones((1, 4, 5, 8))
    >>> y, weights = spatial_attention(x, jnp.zeros((3, 3, 2, 1)))
    >>> y.shape, weights[0, 0, 0].item()  # sigmoid(0)
    ((1, 4, 5, 8), 0.5)
    """
    check_shapes(x=(x, "B Y X C"), mask=(mask, "B Y X"), kernel=(kernel, "Ky Kx 2 1"), bias=(bias, ""))
    if not (kernel.shape[0] % 2 and kernel.shape[1] % 2):
        raise ValueError(f"kernel: axes Ky Kx of [Ky Kx 2 1]: expected odd sizes, got {list(kernel.shape)}")
    logits = spatial_logits(x, kernel, mask=mask)
    dtype = logits.dtype
    gates = jax.nn.sigmoid(logits if bias is None else logits + bias.astype(dtype))
    if mask is not None:
        gates = jnp.where(mask, gates, jnp.zeros((), dtype))
    return only_real((x.astype(dtype) * gates[..., None]).astype(x.dtype), mask), gates


def spatial_logits(
    x: Float[Array, "B Y X C"], kernel: Float[Array, "Ky Kx 2 1"], *, mask: Bool[Array, "B Y X"] | None = None
) -> Float[Array, "B Y X"]:
    """The input of the sigmoid, in at least float32: the convolution of the mean and maximum over channels."""
    dtype = accumulator(x.dtype)
    pooled = jnp.stack([jnp.mean(x.astype(dtype), axis=-1), largest(x, -1).astype(dtype)], axis=-1)
    return jax.lax.conv_general_dilated(
        only_real(pooled, mask), kernel.astype(dtype), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )[..., 0]
