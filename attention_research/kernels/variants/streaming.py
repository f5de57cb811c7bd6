"""Attention sinks in a rolling cache, Xiao et al. 2023 (arXiv 2309.17453), section 3.2:
softmax(Q K^T scale) V over the keys j < s and i - w <= j <= i.

In StreamingLLM, position i attends to the first s tokens (4 in the paper), to the w positions before it and to itself,
so that the cache has s + w + 1 entries at any length. w does not count the position itself; the paper's window of L
recent tokens is w = L - 1. In the paper, position encodings are relative to the cache: keys are cached before the
rotary embedding and rotated according to their index in the cache. The caller must do this; the kernel does not rotate
keys.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale, softmax_or_zero
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.symbolic import symbolic
from attention_research.kernels.variants.row_blocks import attend_by_rows


class RollingCache(NamedTuple):
    """Keys [B C K H] and values [B C K Hv], where C = s + w + 1, initially zeros.

    They hold the first s tokens, followed by the last w + 1 tokens in a ring. `position` is the number of tokens so
    far.

    >>> cache = RollingCache(jnp.zeros((1, 5, 2, 4)), jnp.zeros((1, 5, 2, 4)), jnp.array(0))  # 1 sink, a window of 3
    >>> cache.key.shape
    (1, 5, 2, 4)
    """

    key: Float[Array, "B C K H"]
    value: Float[Array, "B C K Hv"]
    position: Int[Array, ""]


def streaming_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    num_sinks: int,
    window: int,
    scale: Scale = None,
    block_size: int = 512,
) -> Float[Array, "B T N Hv"]:
    """Causal attention to the first `num_sinks` tokens and to a window.

    Time and memory are O(T (block + window + sinks)). A query with no visible key gives 0 with gradient 0. Raises
    ValueError naming the argument and the axis.

    >>> x, value = jnp.zeros((1, 5, 1, 2)), jnp.eye(5)[None, :, None]  # the result shows the weights
    >>> print(streaming_attention(x, x, value, num_sinks=1, window=1)[0, :, 0])  # the first, the last, itself
    [[1.   0.   0.   0.   0.  ]
     [0.5  0.5  0.   0.   0.  ]
     [0.33 0.33 0.33 0.   0.  ]
     [0.33 0.   0.33 0.33 0.  ]
     [0.33 0.   0.   0.33 0.33]]
    """
    if num_sinks < 0 or window < 0:
        raise ValueError(f"num_sinks, window: expected at least 0, got {num_sinks} and {window}")
    return attend_by_rows(
        query, key, value, mask, softmax_or_zero, scale=scale, is_causal=True, local_window_size=(window, 0),
        block_size=block_size, num_first=num_sinks if symbolic(key.shape[1]) else min(num_sinks, key.shape[1]),
    )  # fmt: skip


def streaming_attention_step(
    cache: RollingCache,
    query: Float[Array, "B 1 N H"],
    key: Float[Array, "B 1 K H"],
    value: Float[Array, "B 1 K Hv"],
    *,
    num_sinks: int,
    scale: Scale = None,
) -> tuple[RollingCache, Float[Array, "B 1 N Hv"]]:
    """Decodes the next token. It attends to all tokens in the cache.

    The token is stored in a free place, or in the place of the oldest token that is not a sink.
    Raises ValueError naming the argument and the axis.

    >>> cache = RollingCache(jnp.zeros((1, 3, 1, 2)), jnp.zeros((1, 3, 1, 1)), jnp.array(0))  # 1 sink, a window of 1
    >>> x = jnp.zeros((1, 1, 1, 2))
    >>> for number in (1.0, 2.0, 3.0, 8.0):
    ...     cache, context = streaming_attention_step(cache, x, x, jnp.full((1, 1, 1, 1), number), num_sinks=1)
    >>> context.item()  # the mean of 1, 3 and 8: 2 has left the window
    4.0
    """
    check_shapes(query=(query, "B 1 N H"), key=(key, "B 1 K H"), value=(value, "B 1 K Hv"))
    check_shapes(key=(key, "B 1 K H"), cache_key=(cache.key, "B C K H"))
    check_shapes(value=(value, "B 1 K Hv"), cache_key=(cache.key, "B C K H"), cache_value=(cache.value, "B C K Hv"))
    places = cache.key.shape[1]
    if places <= num_sinks:
        raise ValueError(f"cache: axis C of [B C K H]: expected more than the {num_sinks} sinks, got {places}")
    position = cache.position.astype(jnp.int32)
    ring = num_sinks + (position - num_sinks) % (places - num_sinks)
    place = jnp.where(position < num_sinks, position, ring)
    keys = lax.dynamic_update_slice_in_dim(cache.key, key, place, axis=1)
    values = lax.dynamic_update_slice_in_dim(cache.value, value, place, axis=1)
    filled = jnp.arange(places, dtype=jnp.int32) <= position
    context = dot_product_attention(query, keys, values, mask=filled[None, None, None], scale=scale)
    return RollingCache(keys, values, position + 1), context
