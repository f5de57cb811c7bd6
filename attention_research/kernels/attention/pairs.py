"""All pairs of a query and a key: their logits, their visibility, and sums of values weighted by pair."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention.arguments import Options, Scale, in_band, prepare, visible_keys
from attention_research.kernels.integers import as_int32
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes

Mask = Bool[Array, "#B #N #T #S"]
Offset = int | Int[Array, ""]


def pair_logits(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    mask: Mask | None,
    *,
    value: Float[Array, "B S K Hv"] | None = None,
    scale: Scale = None,
    is_causal: bool = False,
    query_offset: Offset = 0,
) -> tuple[Float[Array, "B N T S"], Bool[Array, "#B #N T S"]]:
    """(query key^T scale in float32, the keys that each query may attend to). Arguments as `dot_product_attention`.

    Raises ValueError naming the argument and the axis.
    """
    check_shapes(query_offset=(as_int32("query_offset", query_offset), ""))
    arrays, options = prepare(
        query, key, value, None, mask, scale, is_causal, None, None, None, query_offset=query_offset
    )  # fmt: skip
    (B, T, N, H), (S, K) = query.shape, key.shape[1:3]
    rows = arrays.query.reshape(B, T, K, N // K, H)
    logits = einsum("BTKGH,BSKH->BKGTS", rows, key).reshape(B, N, T, S)
    logits = logits * jnp.asarray(options.scale, accumulator(query.dtype))
    visible = visible_keys(arrays, options)
    visible = jnp.ones((1, 1, T, S), bool) if visible is None else visible
    return logits, jnp.broadcast_to(visible, (*visible.shape[:2], T, S))


def visible_pairs(
    query_length: int, key_length: int, mask: Mask | None, *, is_causal: bool, query_offset: Offset = 0
) -> Bool[Array, "#B #N T S"]:
    """The mask and causality together. Query i is at position i + query_offset of the keys."""
    offset = as_int32("query_offset", query_offset)
    check_shapes(query_offset=(offset, ""))
    rows = jnp.arange(query_length, dtype=jnp.int32)[:, None] + offset
    options = Options(1.0, None, 0 if is_causal else None)
    visible = in_band(rows, jnp.arange(key_length, dtype=jnp.int32), options)
    visible = jnp.ones((query_length, key_length), bool) if visible is None else visible
    visible = visible[None, None] if mask is None else visible & mask
    return jnp.broadcast_to(visible, (*visible.shape[:2], query_length, key_length))


def visible_counts(
    query_length: int, key_length: int, mask: Mask | None, *, is_causal: bool, query_offset: Offset = 0
) -> Int[Array, "#B #N T"]:
    """The number of keys that each query may attend to."""
    visible = visible_pairs(query_length, key_length, mask, is_causal=is_causal, query_offset=query_offset)
    return jnp.sum(visible, axis=-1, dtype=jnp.int32)


def weighted_values(weights: Float[Array, "B N T S"], value: Float[Array, "B S K Hv"]) -> Float[Array, "B T N Hv"]:
    """The sum of the values weighted by pair, in the values' dtype. Head n reads the values of its group.

    With the weights first, XLA's CPU backend (0.10.2) rejects the product in bfloat16 for a few queries in a loop.
    """
    (B, N, T, S), K = weights.shape, value.shape[2]
    grouped = weights.astype(value.dtype).reshape(B, K, N // K, T, S)
    return einsum("BSKH,BKGTS->BTKGH", value, grouped).reshape(B, T, N, value.shape[3]).astype(value.dtype)
