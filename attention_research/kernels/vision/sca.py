"""Spatial and channel-wise attention (SCA-CNN), Chen et al. 2017 (arXiv 1611.05594), section 3:
alpha = softmax(w_i tanh(W_s V + b_s + W_hs h)) over positions,
beta = softmax(w'_i tanh(w_c v + b_c + W_hc h)) over channels, v = mean of V over positions, X = alpha beta V.

h is the state of the decoder before a word is generated, so that both weights depend on the words so far. The second of
the two is computed from V weighted by the first. Both are distributions, so that X is small. The released code
multiplies each by its number of entries, so that its mean is 1 (`rescaled`). The paper also has biases b_i and b'_i
outside the tanh; they cancel in the softmax and are omitted. Images are [B Y X C].
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import softmax_or_zero
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.vision.squeeze_excitation import mean_over_pixels, only_real

ORDERS = ("channel-spatial", "spatial-channel")


def sca_spatial_weights(
    x: Float[Array, "B Y X C"],
    state: Float[Array, "B D"],
    spatial_kernel: Float[Array, "C A"],
    spatial_bias: Float[Array, "A"],
    spatial_state_kernel: Float[Array, "D A"],
    spatial_vector: Float[Array, "A"],
    *,
    mask: Bool[Array, "B Y X"] | None = None,
) -> Float[Array, "B Y X"]:
    """alpha, in float32. It sums to 1 over the non-padding pixels (`mask` True), or is 0 if there are none.

    Raises ValueError naming the axis.

    >>> x, state = jnp.ones((1, 4, 5, 8)), jnp.ones((1, 6))
    >>> weights = sca_spatial_weights(x, state, jnp.ones((8, 3)), jnp.ones(3), jnp.ones((6, 3)), jnp.ones(3))
    >>> weights.shape, weights.sum().round(2).item()
    ((1, 4, 5), 1.0)
    """
    check_shapes(
        x=(x, "B Y X C"), mask=(mask, "B Y X"), state=(state, "B D"), spatial_kernel=(spatial_kernel, "C A"),
        spatial_bias=(spatial_bias, "A"), spatial_state_kernel=(spatial_state_kernel, "D A"),
        spatial_vector=(spatial_vector, "A"),
    )  # fmt: skip
    dtype = accumulator(x.dtype)
    from_state = einsum("BD,DA->BA", state, spatial_state_kernel.astype(state.dtype)) + spatial_bias.astype(dtype)
    hidden = einsum("BYXC,CA->BYXA", x, spatial_kernel.astype(x.dtype)) + from_state[:, None, None]
    logits = jnp.einsum("BYXA,A->BYX", jnp.tanh(hidden), spatial_vector.astype(dtype))
    flat = logits.reshape(logits.shape[0], logits.shape[1] * logits.shape[2])
    return softmax_or_zero(flat, None if mask is None else mask.reshape(flat.shape)).reshape(logits.shape)


def sca_channel_weights(
    x: Float[Array, "B Y X C"],
    state: Float[Array, "B D"],
    channel_kernel: Float[Array, "E"],
    channel_bias: Float[Array, "E"],
    channel_state_kernel: Float[Array, "D E"],
    channel_vector: Float[Array, "E"],
    *,
    mask: Bool[Array, "B Y X"] | None = None,
) -> Float[Array, "B C"]:
    """beta, in float32. It sums to 1 over the channels, or is 0 for an image of only padding.

    The weight of a channel is computed from one scalar, its mean, with parameters that all channels share. Raises
    ValueError naming the axis.

    >>> x, state = jnp.ones((1, 4, 5, 8)), jnp.ones((1, 6))
    >>> weights = sca_channel_weights(x, state, jnp.ones(2), jnp.ones(2), jnp.ones((6, 2)), jnp.ones(2))
    >>> weights.shape, weights.sum().item()
    ((1, 8), 1.0)
    """
    check_shapes(
        x=(x, "B Y X C"), mask=(mask, "B Y X"), state=(state, "B D"), channel_kernel=(channel_kernel, "E"),
        channel_bias=(channel_bias, "E"), channel_state_kernel=(channel_state_kernel, "D E"),
        channel_vector=(channel_vector, "E"),
    )  # fmt: skip
    dtype = accumulator(x.dtype)
    from_state = einsum("BD,DE->BE", state, channel_state_kernel.astype(state.dtype)) + channel_bias.astype(dtype)
    hidden = mean_over_pixels(x, mask)[..., None] * channel_kernel.astype(dtype) + from_state[:, None]
    logits = jnp.einsum("BCE,E->BC", jnp.tanh(hidden), channel_vector.astype(dtype))
    if 0 in x.shape[1:3]:
        return jnp.zeros_like(logits)
    return softmax_or_zero(logits, None if mask is None else mask.any(axis=(1, 2))[:, None])


def sca(
    x: Float[Array, "B Y X C"],
    state: Float[Array, "B D"],
    spatial_kernel: Float[Array, "C A"],
    spatial_bias: Float[Array, "A"],
    spatial_state_kernel: Float[Array, "D A"],
    spatial_vector: Float[Array, "A"],
    channel_kernel: Float[Array, "E"],
    channel_bias: Float[Array, "E"],
    channel_state_kernel: Float[Array, "D E"],
    channel_vector: Float[Array, "E"],
    *,
    order: str = "channel-spatial",
    rescaled: bool = False,
    mask: Bool[Array, "B Y X"] | None = None,
) -> tuple[Float[Array, "B Y X C"], Float[Array, "B Y X"], Float[Array, "B C"]]:
    """Returns (X, alpha, beta). `order` is "channel-spatial" (C-S, better in the paper) or "spatial-channel" (S-C).

    With `rescaled`, x is multiplied by alpha times the number of non-padding pixels and by beta times the number of
    channels, also in the input of the second attention. alpha and beta are returned as distributions. Raises ValueError
    naming the axis, and for an unknown order.

    >>> x, state = jnp.ones((1, 4, 5, 8)), jnp.ones((1, 6))
    >>> spatial = jnp.ones((8, 3)), jnp.ones(3), jnp.ones((6, 3)), jnp.ones(3)
    >>> channel = jnp.ones(2), jnp.ones(2), jnp.ones((6, 2)), jnp.ones(2)
    >>> [part.shape for part in sca(x, state, *spatial, *channel)]  # the modulated map, and its weights
    [(1, 4, 5, 8), (1, 4, 5), (1, 8)]
    """
    spatial = (spatial_kernel, spatial_bias, spatial_state_kernel, spatial_vector)
    channel = (channel_kernel, channel_bias, channel_state_kernel, channel_vector)
    if order not in ORDERS:
        raise ValueError(f"order: expected one of {', '.join(ORDERS)}, got {order!r}")

    def by_pixel(x: Array, alpha: Array) -> Array:
        pixels = (
            alpha.shape[1] * alpha.shape[2]
            if mask is None
            else jnp.sum(mask, axis=(1, 2), keepdims=True, dtype=alpha.dtype)
        )
        return only_real(
            (x.astype(alpha.dtype) * (alpha * pixels if rescaled else alpha)[..., None]).astype(x.dtype), mask
        )

    def by_channel(x: Array, beta: Array) -> Array:
        return (x.astype(beta.dtype) * (beta * beta.shape[1] if rescaled else beta)[:, None, None]).astype(x.dtype)

    if order == "channel-spatial":
        beta = sca_channel_weights(x, state, *channel, mask=mask)
        weighted = by_channel(x, beta)
        alpha = sca_spatial_weights(weighted, state, *spatial, mask=mask)
        return by_pixel(weighted, alpha), alpha, beta
    alpha = sca_spatial_weights(x, state, *spatial, mask=mask)
    weighted = by_pixel(x, alpha)
    beta = sca_channel_weights(weighted, state, *channel, mask=mask)
    return by_channel(weighted, beta), alpha, beta
