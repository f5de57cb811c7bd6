"""Dense scaled dot-product attention, Vaswani et al. 2017, equation 1: softmax(Q K^T scale + bias) V.

This is the specification: every other implementation is tested against it.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from attention_research.kernels.attention.arguments import (
    Arrays,
    Options,
    softmax_or_zero,
    visible_keys,
)
from attention_research.kernels.attention.distances import dense
from attention_research.kernels.precision import accumulator, einsum


def weights(arrays: Arrays, options: Options) -> Float[Array, "B N T S"]:
    """The attention weights, in float32 (float64 for float64 inputs)."""
    query, key = arrays.query, arrays.key
    (B, T, N, H), (S, K) = query.shape, key.shape[1:3]
    dtype = accumulator(query.dtype)
    # Heads before lengths once, at the door: with BTNH einsums XLA copies the whole score matrix transposed.
    query = query.reshape(B, T, K, N // K, H).transpose(0, 2, 3, 1, 4)
    logits = einsum("BKGTH,BSKH->BKGTS", query, key).reshape(B, N, T, S)
    logits = logits * jnp.asarray(options.scale, dtype)
    if arrays.bias is not None:
        logits = logits + arrays.bias.astype(dtype)
    if arrays.distance_bias is not None:
        logits = logits + dense(arrays.distance_bias.astype(dtype), T)
    return softmax_or_zero(logits, visible_keys(arrays, options))


def attend(arrays: Arrays, options: Options) -> Float[Array, "B T N Hv"]:
    """The weights times the values; the weights are rounded to the values' dtype, sums are float32."""
    value = arrays.value
    (B, T, N, _), (S, K, Hv) = arrays.query.shape, value.shape[1:]
    probabilities = weights(arrays, options).astype(value.dtype).reshape(B, K, N // K, T, S)
    context = einsum("BKGTS,BSKH->BKGTH", probabilities, value)
    return context.reshape(B, N, T, Hv).swapaxes(1, 2).astype(arrays.query.dtype)
