"""Attention kernels of JAX and cuDNN with the conventions of `dot_product_attention`. Unsupported arguments raise."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from attention_research.kernels.attention.arguments import Arrays, Options, visible_keys
from attention_research.kernels.attention.distances import dense
from attention_research.kernels.attention.refusals import refuse
from attention_research.kernels.masks import combine_masks, segment_mask
from attention_research.kernels.platforms import home_platform
from attention_research.kernels.precision import accumulator

#: The lower bound of a finite bias. JAX sets masked logits to -0.7 times the largest float32, and a smaller bias
#: would make masked keys visible.
LOWEST = -1e38


def _above_masked(bias: Array) -> Array:
    """The bias, bounded below by LOWEST, with the gradient of the unbounded bias."""
    return bias + jax.lax.stop_gradient(jnp.maximum(bias, jnp.asarray(LOWEST, bias.dtype)) - bias)


def attend(implementation: Any, arrays: Arrays, options: Options, *, platform: str | None = None) -> Array:
    """`jax.nn.dot_product_attention`, with 0 for rows without a visible key (instead of the mean of masked values).

    Raises ValueError if the library does not support an argument.
    """
    refuse(implementation, arrays, options, platform or home_platform())
    T, S = arrays.query.shape[1], arrays.key.shape[1]
    bias, mask = arrays.bias, arrays.mask
    if arrays.distance_bias is not None:
        by_distance = dense(arrays.distance_bias, T)
        wide = accumulator(arrays.query.dtype)
        bias = by_distance if bias is None else bias.astype(wide) + by_distance.astype(wide)
    if arrays.query_segments is not None and arrays.key_segments is not None:
        mask = combine_masks(mask, segment_mask(arrays.query_segments, arrays.key_segments))
    if bias is not None:  # entries of -inf become part of the mask, which avoids NaN
        hidden = bias == -jnp.inf
        bias, mask = _above_masked(jnp.where(hidden, jnp.zeros_like(bias), bias)), combine_masks(mask, ~hidden)
        if implementation == "cudnn":
            bias = jnp.broadcast_to(bias, (*bias.shape[:2], T, S)).astype(arrays.query.dtype)
        else:
            bias = bias.astype(accumulator(arrays.query.dtype))
    visible = visible_keys(arrays._replace(mask=mask), options)
    # Causal attention is the band (None, 0). Other bands are passed as a window, and an absent bound as the length.
    left = T - 1 if options.left is None else options.left
    right = S - 1 if options.right is None else options.right
    causal_or_all = options.left is None and options.right in (None, 0)
    query, scale = arrays.query, options.scale
    if implementation == "xla" and query.dtype == accumulator(query.dtype):
        # Scale before the product, so that the compiler cannot contract it with the softmax (see `exp_below`).
        query, scale = query * jnp.asarray(scale, query.dtype), 1.0
    output = jax.nn.dot_product_attention(
        query,
        arrays.key,
        arrays.value,
        bias,
        mask,
        scale=scale,
        is_causal=options.right == 0,
        query_seq_lengths=arrays.query_lengths,
        key_value_seq_lengths=arrays.key_lengths,
        local_window_size=None if causal_or_all else (left, right),
        implementation=implementation,
    )
    if visible is None:
        return output
    some = jnp.any(visible, axis=-1, keepdims=True).swapaxes(1, 2)
    return jnp.where(some, output, jnp.zeros_like(output))
