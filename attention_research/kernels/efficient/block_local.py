"""Block-local attention, Liu et al. 2018 (arXiv 1801.10198), section 4.2.4: z_i = softmax(q_i K_A(i)^T scale) V_A(i),
with A(i) = {j, floor(j / block_size) = floor(i / block_size)}.

This is the row "local attention" of the Long Range Arena, Tay et al. 2021 (arXiv 2011.04006). Blocks are disjoint, so
that no information crosses a block boundary, with any number of layers. The last block may be shorter.

The released code of the Long Range Arena reshapes the T positions to [block_size, blocks] instead of [blocks,
block_size]. A position therefore attends to every blocks-th position, A(i) = {j, j = i modulo blocks}, with blocks =
floor(T / block_size) + 1. `strided` selects this form. (Here the mask applies to the keys that it belongs to; the
released code lays it out by blocks.)
"""

from __future__ import annotations

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
    query_blocks,
    real_keys,
    self_attention_scale,
    split,
)
from attention_research.kernels.shapes import check_shapes


class BlockLocalCache(NamedTuple):
    """The decoding state: the number of positions so far, and the keys and values of the current block."""

    position: Int[Array, ""]
    key: Float[Array, "B P K H"]
    value: Float[Array, "B P K Hv"]


def block_local_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B T K H"],
    value: Float[Array, "B T K Hv"],
    *,
    block_size: int,
    mask: Bool[Array, "B T"] | None = None,
    is_causal: bool = False,
    strided: bool = False,
    scale: Scale = None,
) -> Float[Array, "B T N Hv"]:
    """Attention within blocks of `block_size` positions, with time and memory O(T block_size).

    `mask` is True at non-padding keys. `is_causal` masks the keys after the query. `strided` selects the form of the
    released code. `scale` None means 1 / sqrt(H). A query with no visible key gives 0. Raises ValueError naming the
    argument and the axis.

    >>> x, value = jnp.zeros((1, 4, 1, 2)), jnp.eye(4)[None, :, None]  # the result shows the weights
    >>> print(block_local_attention(x, x, value, block_size=2)[0, :, 0])
    [[0.5 0.5 0.  0. ]
     [0.5 0.5 0.  0. ]
     [0.  0.  0.5 0.5]
     [0.  0.  0.5 0.5]]
    """
    scale = self_attention_scale(query, key, value, mask, scale)
    T, K, P = query.shape[1], key.shape[2], block_size
    M = block_count(T, P)
    if T == 0:
        return jnp.zeros((*query.shape[:3], value.shape[3]), query.dtype)
    real = real_keys(mask, T)
    if strided:
        M = T // P + 1
        query, key, value, real = (_deal(x, M, P) for x in (query, key, value, real))
    visible = split(real, P)[:, None, :, None, :]
    if is_causal:
        visible = visible & jnp.tril(jnp.ones((P, P), bool))
    pieces = [Piece(key_blocks(key, P), key_blocks(value, P), visible)]
    context = join(attend_pieces(query_blocks(query, K, P), pieces, scale), M * P if strided else T)
    return _deal(context, P, M)[:, :T] if strided else context


def _deal(x: Array, count: int, size: int) -> Array:
    """Pads [B T ...] to count * size positions and moves position i to block i % count, at index i // count."""
    x = jnp.pad(x, [(0, count * size - x.shape[1] if axis == 1 else 0) for axis in range(x.ndim)])
    return x.reshape(x.shape[0], size, count, *x.shape[2:]).swapaxes(1, 2).reshape(x.shape)


def block_local_cache(key: Float[Array, "B K H"], value: Float[Array, "B K Hv"], *, block_size: int) -> BlockLocalCache:
    """An empty cache of one block, for keys and values of these shapes and dtypes.

    >>> cache = block_local_cache(jnp.ones((1, 2, 4)), jnp.ones((1, 2, 4)), block_size=8)
    >>> int(cache.position), cache.key.shape
    (0, (1, 8, 2, 4))
    """
    empty = lambda x: jnp.zeros((x.shape[0], block_size, *x.shape[1:]), x.dtype)
    return BlockLocalCache(jnp.zeros((), jnp.int32), empty(key), empty(value))


def block_local_step(
    cache: BlockLocalCache,
    query: Float[Array, "B N H"],
    key: Float[Array, "B K H"],
    value: Float[Array, "B K Hv"],
    *,
    scale: Scale = None,
) -> tuple[BlockLocalCache, Float[Array, "B N Hv"]]:
    """Decodes the next position of causal `block_local_attention` (not strided). All blocks use the same slots.

    Raises ValueError naming the argument and the axis.

    >>> token = jnp.ones((1, 2, 4))
    >>> cache = block_local_cache(token, token, block_size=8)
    >>> cache, context = block_local_step(cache, token, token, token)
    >>> int(cache.position), context.shape
    (1, (1, 2, 4))
    """
    check_shapes(
        cache_key=(cache.key, "B P K H"), cache_value=(cache.value, "B P K Hv"),
        query=(query, "B N H"), key=(key, "B K H"), value=(value, "B K Hv"),
    )  # fmt: skip
    P = cache.key.shape[1]
    slot = cache.position % P
    keys, values = cache.key.at[:, slot].set(key), cache.value.at[:, slot].set(value)
    visible = (jnp.arange(P, dtype=jnp.int32) <= slot)[None, None, None]
    context = dot_product_attention(query[:, None], keys, values, mask=visible, scale=scale)
    return BlockLocalCache(cache.position + 1, keys, values), context[:, 0]
