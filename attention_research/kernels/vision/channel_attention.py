"""CBAM's channel attention, Woo et al. 2018 (arXiv 1807.06521), equation 2:
M_c(F) = sigmoid(MLP(avg(F)) + MLP(max(F))), with MLP(z) = W_1 relu(W_0 z) and avg, max over positions.

Both terms use the same MLP, so that a bias of its output counts twice, as in the released code. The paper has no
biases. Images are [B Y X C].
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.largest import largest
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.vision.squeeze_excitation import excitation, gate_channels, mean_over_pixels


def channel_attention(
    x: Float[Array, "B Y X C"],
    reduce_kernel: Float[Array, "C R"],
    expand_kernel: Float[Array, "R C"],
    reduce_bias: Float[Array, "R"] | None = None,
    expand_bias: Float[Array, "C"] | None = None,
    *,
    mask: Bool[Array, "B Y X"] | None = None,
) -> tuple[Float[Array, "B Y X C"], Float[Array, "B C"]]:
    """Returns (x times its gates, the gates in float32). Unlike `squeeze_excitation`, it also pools the maximum.

    `mask` is True at non-padding pixels. Padding is excluded from pooling, and its output is 0. An image of only
    padding has gates 0. Raises ValueError naming the axis.

    >>> x, reduce, expand = jnp.ones((1, 4, 5, 8)), jnp.zeros((8, 2)), jnp.zeros((2, 8))
    >>> y, weights = channel_attention(x, reduce, expand)
    >>> y.shape, weights[0, 0].item()  # sigmoid(0)
    ((1, 4, 5, 8), 0.5)
    """
    check_shapes(
        x=(x, "B Y X C"), mask=(mask, "B Y X"), reduce_kernel=(reduce_kernel, "C R"),
        expand_kernel=(expand_kernel, "R C"), reduce_bias=(reduce_bias, "R"), expand_bias=(expand_bias, "C"),
    )  # fmt: skip
    lowest = jnp.finfo(x.dtype).min
    real = x if mask is None else jnp.where(mask[..., None], x, lowest)
    B, Y, X, C = x.shape
    top = largest(real.reshape(B, Y * X, C), 1, of_none=float(lowest))
    if mask is not None:
        top = jnp.where(mask.any(axis=(1, 2))[:, None], top, jnp.zeros((), x.dtype))
    pooled = jnp.stack([mean_over_pixels(x, mask).astype(x.dtype), top])
    parameters = (reduce_kernel, expand_kernel, reduce_bias, expand_bias)
    average, top = jax.vmap(lambda z: excitation(z, *parameters))(pooled)
    return gate_channels(x, jax.nn.sigmoid(average + top), mask)
