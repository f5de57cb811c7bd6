"""Convolutional copy attention, Allamanis, Peng & Sutton 2016 (arXiv 1602.03001), section 2:
alpha = softmax(conv(L, K_att)), kappa = softmax(conv(L, K_copy)), lambda = max_j sigmoid(conv(L, K_meta) + b),
with L = F h / |F h|.

F (`convolutional_features`) is two convolutions over the token embeddings, h is the decoder state, and |.| is the norm
over all positions and feature maps of one snippet. The paper uses a ReLU and h itself. The released code has leaky
ReLUs of slope 0.1 on the first convolution and 0.01 on h (`negative_slope`; the paper has 0 and 1). Kernels are not
flipped (in Theano they are). The released code has biases of alpha and kappa; they cancel in the softmax and are
omitted here. The padding of w1 + w2 + w3 - 3 tokens is split equally between both sides, with an odd token on the left.
For an even padding, the released code averages the embedding of token j + 1 with the weight of token j; here it is the
embedding of token j. `copy_mixture_log_probability` combines kappa and lambda.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import softmax_or_zero
from attention_research.kernels.largest import largest
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes


class CopyAttention(NamedTuple):
    """`weights` (alpha) and `copy_weights` (kappa) [B T S], `context` [B T D], `copy_probability` (lambda) [B T].

    >>> CopyAttention._fields
    ('context', 'weights', 'copy_weights', 'copy_probability')
    """

    context: Array
    weights: Array
    copy_weights: Array
    copy_probability: Array


def convolutional_features(
    embeddings: Float[Array, "B S D"],
    first_kernel: Float[Array, "W1 D K1"],
    first_bias: Float[Array, "K1"],
    second_kernel: Float[Array, "W2 K1 K"],
    second_bias: Float[Array, "K"],
    edge: Float[Array, "D"] | None = None,
    *,
    window: int,
    mask: Bool[Array, "B S"] | None = None,
    negative_slope: float = 0.1,
) -> Float[Array, "B P K"]:
    """The features F for P = S + window - 1, where `window` is w3, the width of the three convolutions that follow.

    `edge` replaces the embeddings before, after and at the padding of a snippet; it is the embedding of the padding
    token in the released code (None: zeros). `mask` is True at non-padding tokens. Raises ValueError naming the axis.

    >>> kernels = jnp.ones((2, 4, 8)), jnp.ones((3, 8, 6))
    >>> x = convolutional_features(jnp.ones((1, 5, 4)), kernels[0], jnp.zeros(8), kernels[1], jnp.zeros(6), window=3)
    >>> x.shape  # [B P K] with P = S + window - 1
    (1, 7, 6)
    """
    check_shapes(
        embeddings=(embeddings, "B S D"), mask=(mask, "B S"), edge=(edge, "D"), first_kernel=(first_kernel, "W1 D K1"),
        first_bias=(first_bias, "K1"), second_kernel=(second_kernel, "W2 K1 K"), second_bias=(second_bias, "K"),
    )  # fmt: skip
    B, _, D = embeddings.shape
    dtype = embeddings.dtype
    edge = jnp.zeros((D,), dtype) if edge is None else edge.astype(dtype)
    if mask is not None:
        embeddings = jnp.where(mask[..., None], embeddings, edge)
    around = first_kernel.shape[0] + second_kernel.shape[0] + window - 3
    beside = lambda count: jnp.broadcast_to(edge, (B, count, D))
    x = jnp.concatenate([beside((around + 1) // 2), embeddings, beside(around // 2)], axis=1)
    x = jax.nn.leaky_relu(_convolve(x, first_kernel, first_bias), negative_slope).astype(dtype)
    return _convolve(x, second_kernel, second_bias).astype(dtype)


def _convolve(x: Array, kernel: Array, bias: Array) -> Array:
    dtype = accumulator(x.dtype)
    y = jax.lax.conv_general_dilated(x, kernel.astype(x.dtype), (1,), "VALID", dimension_numbers=("NWC", "WIO", "NWC"))
    return y.astype(dtype) + bias.astype(dtype)


def convolutional_copy_attention(
    embeddings: Float[Array, "B S D"],
    features: Float[Array, "B P K"],
    state: Float[Array, "B T K"],
    attention_kernel: Float[Array, "W K"],
    copy_kernel: Float[Array, "W K"],
    meta_kernel: Float[Array, "W K"],
    meta_bias: Float[Array, ""],
    *,
    mask: Bool[Array, "B S"] | None = None,
    negative_slope: float = 0.01,
) -> CopyAttention:
    """Returns alpha and its context (the average of *embeddings*), kappa and lambda for every state h.

    lambda is a maximum over positions, not a mean. `mask` is True at non-padding tokens. A snippet without such tokens
    gives 0 for all results. A state of zeros, for which the released code divides 0 by 0, attends equally to all
    tokens. The state multiplies the kernels, so that no [T P K] tensor is formed. Raises ValueError naming the axis.

    >>> embeddings, features = jnp.ones((1, 5, 4)), jnp.ones((1, 5 + 3 - 1, 6))  # 5 tokens, windows of 3
    >>> state, kernel = jnp.ones((1, 2, 6)), jnp.ones((3, 6))
    >>> found = convolutional_copy_attention(embeddings, features, state, kernel, kernel, kernel, jnp.array(0.0))
    >>> found.context.shape, found.copy_weights.shape, found.copy_probability.shape
    ((1, 2, 4), (1, 2, 5), (1, 2))
    """
    check_shapes(
        embeddings=(embeddings, "B S D"), mask=(mask, "B S"), features=(features, "B P K"), state=(state, "B T K"),
        attention_kernel=(attention_kernel, "W K"), copy_kernel=(copy_kernel, "W K"), meta_kernel=(meta_kernel, "W K"),
        meta_bias=(meta_bias, ""),
    )  # fmt: skip
    S, W = embeddings.shape[1], attention_kernel.shape[0]
    if features.shape[1] != S + W - 1:
        raise ValueError(f"features: axis P of [B P K]: expected S + W - 1 = {S + W - 1}, got {features.shape[1]}")
    dtype = accumulator(features.dtype)
    if mask is not None:
        features = jnp.where(_reached(mask, W)[..., None], features, jnp.zeros((), features.dtype))
    gate = jax.nn.leaky_relu(state, negative_slope).astype(features.dtype)
    squares = jnp.sum(jnp.square(features.astype(dtype)), axis=1)
    norm = jnp.einsum("BK,BTK->BT", squares, jnp.square(gate.astype(dtype)))
    norm = jnp.sqrt(jnp.where(norm == 0, jnp.ones_like(norm), norm))
    windows = jnp.stack([features[:, start : start + S] for start in range(W)], axis=2)
    kernels = jnp.stack([attention_kernel, copy_kernel, meta_kernel]).astype(features.dtype)
    logits = einsum("OBTWK,BSWK->OBTS", gate[:, :, None] * kernels[:, None, None], windows) / norm[..., None]
    visible = None if mask is None else mask[:, None]
    alpha, kappa = (softmax_or_zero(logits[row], visible) for row in (0, 1))
    meta = logits[2] if visible is None else jnp.where(visible, logits[2], -jnp.inf)
    copy_probability = jax.nn.sigmoid(largest(meta, -1) + meta_bias.astype(dtype))
    context = einsum("BTS,BSD->BTD", alpha.astype(embeddings.dtype), embeddings).astype(embeddings.dtype)
    return CopyAttention(context, alpha, kappa, copy_probability)


def _reached(mask: Array, window: int) -> Array:
    """The mask [B S + window - 1] of feature rows that are in the window of at least one non-padding token."""
    S = mask.shape[1]
    around = jnp.pad(mask, ((0, 0), (window - 1, window - 1)))
    return jnp.stack([around[:, start : start + S + window - 1] for start in range(window)]).any(axis=0)
