"""Squeeze-and-excitation, Hu, Shen & Sun 2018 (arXiv 1709.01507), equations 2 to 4:
s = sigmoid(W_2 relu(W_1 z)), z = mean over positions of u, x_c = s_c u_c.

This is channel attention, with one gate in (0, 1) per channel and image; the gates are not a distribution. Images are
[B Y X C]. The paper has R = C / 16 and no biases; released networks have biases. Both are optional here.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes


def squeeze_excitation(
    x: Float[Array, "B Y X C"],
    reduce_kernel: Float[Array, "C R"],
    expand_kernel: Float[Array, "R C"],
    reduce_bias: Float[Array, "R"] | None = None,
    expand_bias: Float[Array, "C"] | None = None,
    *,
    mask: Bool[Array, "B Y X"] | None = None,
) -> tuple[Float[Array, "B Y X C"], Float[Array, "B C"]]:
    """Returns (x times its gates, the gates in float32).

    `mask` is True at non-padding pixels. Padding is excluded from the mean, and its output is 0. An image of only
    padding has gates 0. Raises ValueError naming the axis.

    >>> x, reduce, expand = jnp.ones((1, 4, 5, 8)), jnp.zeros((8, 2)), jnp.zeros((2, 8))
    >>> y, weights = squeeze_excitation(x, reduce, expand)
    >>> y.shape, weights[0, 0].item()  # sigmoid(0)
    ((1, 4, 5, 8), 0.5)
    """
    check_shapes(
        x=(x, "B Y X C"), mask=(mask, "B Y X"), reduce_kernel=(reduce_kernel, "C R"),
        expand_kernel=(expand_kernel, "R C"), reduce_bias=(reduce_bias, "R"), expand_bias=(expand_bias, "C"),
    )  # fmt: skip
    mean = mean_over_pixels(x, mask)
    gates = jax.nn.sigmoid(excitation(mean.astype(x.dtype), reduce_kernel, expand_kernel, reduce_bias, expand_bias))
    return gate_channels(x, gates, mask)


def mean_over_pixels(x: Float[Array, "B Y X C"], mask: Bool[Array, "B Y X"] | None = None) -> Float[Array, "B C"]:
    """The mean over non-padding pixels, in float32, or 0 if there are none."""
    x = x.astype(accumulator(x.dtype))
    if mask is None:
        return jnp.sum(x, axis=(1, 2)) if 0 in x.shape[1:3] else jnp.mean(x, axis=(1, 2))
    count = jnp.sum(mask, axis=(1, 2), dtype=x.dtype)[:, None]
    return jnp.sum(only_real(x, mask), axis=(1, 2)) / jnp.maximum(count, 1)


def only_real(x: Float[Array, "B Y X C"], mask: Bool[Array, "B Y X"] | None) -> Float[Array, "B Y X C"]:
    """Zeroes x at padding pixels."""
    return x if mask is None else jnp.where(mask[..., None], x, jnp.zeros((), x.dtype))


def excitation(
    pooled: Float[Array, "B C"],
    reduce_kernel: Float[Array, "C R"],
    expand_kernel: Float[Array, "R C"],
    reduce_bias: Float[Array, "R"] | None,
    expand_bias: Float[Array, "C"] | None,
) -> Float[Array, "B C"]:
    """W_2 relu(W_1 z), with optional biases, in float32."""
    dtype = accumulator(pooled.dtype)
    hidden = einsum("BC,CR->BR", pooled, reduce_kernel.astype(pooled.dtype))
    hidden = jax.nn.relu(hidden if reduce_bias is None else hidden + reduce_bias.astype(dtype))
    logits = einsum("BR,RC->BC", hidden.astype(pooled.dtype), expand_kernel.astype(pooled.dtype))
    return logits if expand_bias is None else logits + expand_bias.astype(dtype)


def gate_channels(
    x: Float[Array, "B Y X C"], gates: Float[Array, "B C"], mask: Bool[Array, "B Y X"] | None
) -> tuple[Float[Array, "B Y X C"], Float[Array, "B C"]]:
    """Returns (x times its gates, the gates). Padding pixels are 0, and an image of only padding has gates 0."""
    if 0 in x.shape[1:3]:
        gates = jnp.zeros_like(gates)
    elif mask is not None:
        gates = jnp.where(mask.any(axis=(1, 2))[:, None], gates, jnp.zeros((), gates.dtype))
    return only_real((x.astype(gates.dtype) * gates[:, None, None]).astype(x.dtype), mask), gates
