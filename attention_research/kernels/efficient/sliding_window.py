"""Sliding window with global tokens (Longformer), Beltagy, Peters & Cohan 2020 (arXiv 2004.05150), section 3.1:
z_i = softmax(q_i K_A(i)^T scale) V_A(i), where A(i) = {j, |i - j| <= window} + the global tokens, or all j for a
global i.

`window` is the number of positions on either side and does not count the query itself, so that the paper's w is
2 * window. After l layers, the receptive field is l * window positions on either side. A global token attends to all
tokens, and all tokens attend to it. As in the released code, other tokens use the ordinary key and value of a global
token, while its own row may use separate projections of all positions (`global_query`, `global_key`, `global_value`).
A key that is global and in the window counts once. Dilation is not implemented. Without global tokens, this equals
`dot_product_attention(..., local_window_size=window)`.

Queries are split into blocks. Each block attends to its own and the neighbouring blocks of keys, so that time and
memory are O(T (window + G)).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.efficient.blocks import (
    Piece,
    attend_pieces,
    block_count,
    join,
    key_blocks,
    neighbours,
    query_blocks,
    real_keys,
    self_attention_scale,
    split,
)
from attention_research.kernels.integers import as_int32
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.symbolic import expect_numbers

#: The minimum number of queries per block. Blocks of 8 and 16 are fastest for a window of 8, and blocks of the size of
#: the window for 64 and 256 (measured on 2 cores at T = 4096, forward and backward).
SMALLEST_BLOCK = 16


class SlidingWindowCache(NamedTuple):
    """The decoding state, whose size does not depend on the length: the global keys and a ring of the last keys."""

    position: Int[Array, ""]
    key: Float[Array, "B C K H"]
    value: Float[Array, "B C K Hv"]


def sliding_window_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B T K H"],
    value: Float[Array, "B T K Hv"],
    *,
    window: int,
    mask: Bool[Array, "B T"] | None = None,
    global_positions: int | Int[Array, "B G"] = 0,
    global_query: Float[Array, "B G N H"] | None = None,
    global_key: Float[Array, "B T K H"] | None = None,
    global_value: Float[Array, "B T K Hv"] | None = None,
    is_causal: bool = False,
    scale: Scale = None,
    block_size: int | None = None,
) -> Float[Array, "B T N Hv"]:
    """Position i attends to i - window to i + window and to the global tokens, which attend to all positions.

    `global_positions` is the number of initial positions that are global, or the global positions of each example.
    Numbers outside 0..T-1, such as -1, are ignored, so that examples may have different numbers of global tokens.
    `global_query` holds the queries of the global tokens only, in the same order. By default, these queries (and
    `global_key`, `global_value`) come from the ordinary arrays. `mask` is True at non-padding keys. `is_causal` masks
    keys after the query for all queries, including global ones. `scale` None means 1 / sqrt(H). `block_size` affects
    only speed and memory. A query with no visible key gives 0. Raises ValueError naming the argument and the axis.

    >>> x, value = jnp.zeros((1, 5, 1, 2)), jnp.eye(5)[None, :, None]  # the result shows the weights
    >>> print(sliding_window_attention(x, x, value, window=1)[0, :, 0])  # nothing beyond one position on each side
    [[0.5  0.5  0.   0.   0.  ]
     [0.33 0.33 0.33 0.   0.  ]
     [0.   0.33 0.33 0.33 0.  ]
     [0.   0.   0.33 0.33 0.33]
     [0.   0.   0.   0.5  0.5 ]]
    """
    if window < 0:
        raise ValueError(f"window: expected at least 0, got {window}")
    scale = self_attention_scale(
        query, key, value, mask, scale,
        global_positions=(None if isinstance(global_positions, int) else global_positions, "B G"),
        global_query=(global_query, "B G N H"),
        global_key=(global_key, "B T K H"), global_value=(global_value, "B T K Hv"),
    )  # fmt: skip
    (B, T, _, _), K = query.shape, key.shape[2]
    expect_numbers("window", T=T)
    if T == 0:
        return jnp.zeros((*query.shape[:3], value.shape[3]), query.dtype)
    P = max(window, SMALLEST_BLOCK) if block_size is None else block_size
    P = min(P, T)
    M, reach = block_count(T, P), math.ceil(window / P)
    left, right = min(reach, M - 1), 0 if is_causal else min(reach, M - 1)
    at, used = _global_tokens(global_positions, global_query, B, T)
    real = local = real_keys(mask, T)
    if at.shape[1]:
        example, nowhere = jnp.arange(B, dtype=jnp.int32)[:, None], jnp.where(used, at, T)
        local = real & ~jnp.zeros((B, T), bool).at[example, nowhere].set(True, mode="drop")
        pick = lambda x: jnp.take_along_axis(x, at[:, :, None, None], axis=1)

    offset = jnp.arange((left + 1 + right) * P, dtype=jnp.int32) - left * P - jnp.arange(P, dtype=jnp.int32)[:, None]
    near = (offset >= -window) & (offset <= (0 if is_causal else window))
    visible = neighbours(split(local, P), left, right, axis=1)[:, None, :, None, :] & near
    key_near, value_near = (neighbours(key_blocks(x, P), left, right, axis=2) for x in (key, value))
    pieces = [Piece(key_near, value_near, visible)]
    if at.shape[1]:
        seen = (used & jnp.take_along_axis(jnp.broadcast_to(real, (B, T)), at, axis=1))[:, None, None, None, :]
        if is_causal:
            rows = jnp.arange(M * P, dtype=jnp.int32).reshape(M, P, 1)
            seen = seen & (at[:, None, None, None, :] <= rows)
        key_global, value_global = (pick(x).swapaxes(1, 2)[:, :, None] for x in (key, value))
        pieces.append(Piece(key_global, value_global, seen))
    context = join(attend_pieces(query_blocks(query, K, P), pieces, scale), T)
    if not at.shape[1]:
        return context

    everything = real[:, None, None, :]
    if is_causal:
        everything = everything & (jnp.arange(T, dtype=jnp.int32) <= at[:, None, :, None])
    rows = dot_product_attention(
        pick(query) if global_query is None else global_query,
        key if global_key is None else global_key,
        value if global_value is None else global_value,
        mask=everything,
        scale=scale,
    )
    return context.at[example, nowhere].set(rows, mode="drop")


def _global_tokens(
    positions: int | Array, global_query: Array | None, batch: int, length: int
) -> tuple[Int[Array, "B G"], Bool[Array, "B G"]]:
    """Returns (positions, used). `used` is False for repeated and invalid positions, which are replaced by 0."""
    if isinstance(positions, int):
        if positions < 0:
            raise ValueError(f"global_positions: expected at least 0, got {positions}")
        count = min(positions, length)
        if global_query is not None and global_query.shape[1] != count:
            raise ValueError(f"global_query: axis G of [B G N H]: expected {count}, got {global_query.shape[1]}")
        at = jnp.broadcast_to(jnp.arange(count, dtype=jnp.int32), (batch, count))
        return at, jnp.ones(at.shape, bool)
    positions = as_int32("global_positions", positions)
    earlier = jnp.tril(jnp.ones((positions.shape[1],) * 2, bool), -1)
    again = jnp.any((positions[:, :, None] == positions[:, None, :]) & earlier, axis=-1)
    used = (positions >= 0) & (positions < length) & ~again
    return jnp.where(used, positions, 0), used


def sliding_window_cache(
    key: Float[Array, "B K H"], value: Float[Array, "B K Hv"], *, window: int, num_global: int = 0
) -> SlidingWindowCache:
    """An empty cache of num_global + window + 1 positions, for keys and values of these shapes and dtypes.

    >>> token = jnp.ones((1, 2, 4))
    >>> cache = sliding_window_cache(token, token, window=3)
    >>> jax.tree.map(jnp.shape, cache)
    SlidingWindowCache(position=(), key=(1, 4, 2, 4), value=(1, 4, 2, 4))
    """
    empty = lambda x: jnp.zeros((x.shape[0], num_global + window + 1, *x.shape[1:]), x.dtype)
    return SlidingWindowCache(jnp.zeros((), jnp.int32), empty(key), empty(value))


def sliding_window_step(
    cache: SlidingWindowCache,
    query: Float[Array, "B N H"],
    key: Float[Array, "B K H"],
    value: Float[Array, "B K Hv"],
    *,
    num_global: int = 0,
    scale: Scale = None,
) -> tuple[SlidingWindowCache, Float[Array, "B N Hv"]]:
    """Decodes the next position of causal `sliding_window_attention` whose first `num_global` positions are global.

    The cache determines the window. A global position i is in slot i; later positions are in a ring of window + 1
    slots. Raises ValueError naming the argument and the axis.

    >>> query, key = jnp.zeros((1, 1, 2)), jnp.zeros((1, 1, 2))
    >>> cache = sliding_window_cache(key, jnp.zeros((1, 1, 1)), window=1)
    >>> for number in (1.0, 2.0, 6.0):
    ...     cache, context = sliding_window_step(cache, query, key, jnp.full((1, 1, 1), number))
    >>> context.item()  # the mean of 2 and 6: 1 is outside the window
    4.0
    """
    sizes = check_shapes(
        cache_key=(cache.key, "B P K H"), cache_value=(cache.value, "B P K Hv"),
        query=(query, "B N H"), key=(key, "B K H"), value=(value, "B K Hv"),
    )  # fmt: skip
    if not 0 <= num_global < sizes["P"]:
        raise ValueError(f"num_global: expected 0 to {sizes['P'] - 1} for this cache, got {num_global}")
    ring = sizes["P"] - num_global
    now = cache.position
    slot = jnp.where(now < num_global, now, num_global + (now - num_global) % ring)
    keys, values = cache.key.at[:, slot].set(key), cache.value.at[:, slot].set(value)
    slots = jnp.arange(num_global + ring, dtype=jnp.int32)
    held = jnp.where(slots < num_global, slots, now - (now - slots) % ring)  # the position in each slot
    visible = (held <= now) & ((slots < num_global) | (held >= num_global))
    context = dot_product_attention(query[:, None], keys, values, mask=visible[None, None, None], scale=scale)
    return SlidingWindowCache(now + 1, keys, values), context[:, 0]
