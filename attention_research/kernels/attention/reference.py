"""Dense scaled dot-product attention, Vaswani et al. 2017, equation 1: softmax(Q K^T scale + bias) V.

This implementation is the specification. All other implementations are tested against it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attention_research.kernels.attention.arguments import (
    Arrays,
    Options,
    capped,
    softmax_or_zero,
    visible_keys,
)
from attention_research.kernels.attention.distances import dense
from attention_research.kernels.precision import accumulator, einsum


def weights(arrays: Arrays, options: Options) -> Float[Array, "B N T S"]:
    """The attention weights in float32 (float64 for float64 inputs). With sinks, a row sums to less than 1."""
    return softmax_or_zero(_logits(arrays, options))[..., : arrays.key.shape[1]]


def _logits(arrays: Arrays, options: Options) -> Float[Array, "B N T S"]:
    """The logits, -inf at masked keys. A sink is an additional column."""
    query, key = arrays.query, arrays.key
    (B, T, N, H), (S, K) = query.shape, key.shape[1:3]
    dtype = accumulator(query.dtype)
    # Transpose to the layout [B N T H] once. With einsums over BTNH, XLA would transpose the whole score matrix.
    query = query.reshape(B, T, K, N // K, H).transpose(0, 2, 3, 1, 4)
    logits = einsum("BKGTH,BSKH->BKGTS", query, key).reshape(B, N, T, S)
    logits = capped(logits * jnp.asarray(options.scale, dtype), options.soft_cap)
    if arrays.bias is not None:
        logits = logits + arrays.bias.astype(dtype)
    if arrays.distance_bias is not None:
        logits = logits + dense(arrays.distance_bias.astype(dtype), T)
    visible = visible_keys(arrays, options)
    if visible is not None:
        logits = jnp.where(visible, logits, -jnp.inf)
    if arrays.sink is not None:
        column = jnp.broadcast_to(arrays.sink.astype(dtype)[:, None, None], (B, N, T, 1))
        logits = jnp.concatenate([logits, column], axis=-1)
    return logits


def log_sum_exp(logits: Float[Array, "B N T S"]) -> Float[Array, "B T N"]:
    """The log-sum-exp of each row, or -inf with gradient 0 if all logits are -inf."""
    if logits.shape[-1] == 0:
        return jnp.full(logits.shape[:-1], -jnp.inf, logits.dtype).swapaxes(1, 2)
    empty = jnp.all(logits == -jnp.inf, axis=-1)
    sums = jax.nn.logsumexp(jnp.where(empty[..., None], jnp.zeros_like(logits), logits), axis=-1)
    return jnp.where(empty, -jnp.inf, sums).swapaxes(1, 2)


def attend(arrays: Arrays, options: Options) -> Any:
    """The weights times the values [B T N Hv]. Weights are rounded to the values' dtype, and sums are in float32.

    With `options.residual`, the result is (output, log-sum-exp [B T N]).
    """
    value = arrays.value
    (B, T, N, _), (S, K, Hv) = arrays.query.shape, value.shape[1:]
    logits = _logits(arrays, options)
    probabilities = softmax_or_zero(logits)[..., :S].astype(value.dtype).reshape(B, K, N // K, T, S)
    context = einsum("BKGTS,BSKH->BKGTH", probabilities, value)
    context = context.reshape(B, N, T, Hv).swapaxes(1, 2).astype(arrays.query.dtype)
    return (context, log_sum_exp(logits)) if options.residual else context
