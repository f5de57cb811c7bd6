"""The attention kernels of the installed libraries, held to this project's laws; what they cannot honour raises."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from attention_research.kernels.attention.arguments import Arrays, Options, visible_keys
from attention_research.kernels.attention.distances import dense
from attention_research.kernels.masks import combine_masks, segment_mask
from attention_research.kernels.precision import accumulator


def refusal(implementation: str, arrays: Arrays, options: Options) -> str | None:
    """Why "xla" or "cudnn" cannot honour these arguments; None where it can."""
    T, H, Hv = arrays.query.shape[1], arrays.query.shape[3], arrays.value.shape[-1]
    if Hv != H:
        return f"axis Hv of value: expected the query's head width {H}, got {Hv}"
    if implementation == "xla":
        return None
    if jax.default_backend() != "gpu":
        return f"cuDNN needs a GPU; the default backend is {jax.default_backend()}"
    if arrays.query.dtype not in (jnp.bfloat16, jnp.float16):
        return f"dtype of query: expected bfloat16 or float16, got {arrays.query.dtype}"
    if H % 8 or H > 128:
        return f"axis H of query: expected a multiple of 8 up to 128, got {H}"
    if options.left is not None and options.right != 0:
        return "local_window_size: cuDNN has a left window with causal attention only"
    if options.right not in (None, 0):
        return "local_window_size: cuDNN has no right window"
    if options.right == 0 and T != arrays.key.shape[1]:
        return f"axis S of key: causal attention here expects {T} keys, got {arrays.key.shape[1]}"
    return None


def attend(implementation: Any, arrays: Arrays, options: Options) -> Array:
    """`jax.nn.dot_product_attention`, with its empty rows (the mean of masked values) set to 0.

    Raises ValueError where the library cannot honour an argument.
    """
    reason = refusal(implementation, arrays, options)
    if reason is not None:
        raise ValueError(f"implementation={implementation!r}: {reason}")
    T, S = arrays.query.shape[1], arrays.key.shape[1]
    bias, mask = arrays.bias, arrays.mask
    if arrays.distance_bias is not None:
        by_distance = dense(arrays.distance_bias, T)
        bias = by_distance if bias is None else bias + by_distance.astype(bias.dtype)
    if arrays.query_segments is not None and arrays.key_segments is not None:
        mask = combine_masks(mask, segment_mask(arrays.query_segments, arrays.key_segments))
    visible = visible_keys(arrays, options)
    if bias is not None:  # -inf becomes finite, so that no NaN arises; what it hides is remembered in `visible`
        hidden = bias == -jnp.inf
        bias = jnp.where(hidden, jnp.asarray(jnp.finfo(bias.dtype).min / 2, bias.dtype), bias)
        visible = ~hidden if visible is None else visible & ~hidden
        if implementation == "cudnn":
            bias = jnp.broadcast_to(bias, (*bias.shape[:2], T, S)).astype(arrays.query.dtype)
        else:
            bias = bias.astype(accumulator(arrays.query.dtype))
    # Causality is the band (None, 0); any other band goes as a window, an absent bound as one that no query feels.
    left = T - 1 if options.left is None else options.left
    right = S - 1 if options.right is None else options.right
    causal_or_all = options.left is None and options.right in (None, 0)
    output = jax.nn.dot_product_attention(
        arrays.query,
        arrays.key,
        arrays.value,
        bias,
        mask,
        scale=options.scale,
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
