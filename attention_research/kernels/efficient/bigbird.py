"""BigBird, Zaheer et al. 2020 (arXiv 2007.14062), section 2 and appendix D:
z_i = softmax(q_i K_A(i)^T scale) V_A(i), where A(i) is every key in the blocks that the block of i is connected to.

The nodes of the graph are blocks of `block_size` positions. A block is connected to a window of `window_blocks` blocks
centred at itself, to the global blocks, and to its random blocks. A global block is connected to all blocks. A block
that is connected in several ways counts once. This is the ITC form; ETC is ITC on a sequence with additional tokens in
front. In the released code, the global blocks are the first and the last block, which is the default here, and each
head has its own graph; in the paper, all heads share one. Random blocks are drawn from all blocks that are neither in
the window nor global (the released code draws them with a plan that depends on the length).

Time and memory are O(T block_size (window_blocks + random + global)), because key blocks are gathered, not masked.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
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

FIRST_AND_LAST = (0, -1)


def bigbird_random_blocks(
    key: Array,
    num_blocks: int,
    random_blocks: int,
    *,
    window_blocks: int = 3,
    global_blocks: tuple[int, ...] = FIRST_AND_LAST,
) -> Int[Array, "M R"]:
    """Draws `random_blocks` distinct blocks for each block, uniformly from blocks outside of its window and not global.

    If there are fewer such blocks, the remaining entries are -1. It uses Floyd's sampling algorithm on the ranks of the
    allowed blocks, without an [M M] array.

    >>> bigbird_random_blocks(jax.random.key(0), 97, 2).shape
    (97, 2)
    """
    half, fixed = _half_window(window_blocks), _global_numbers(global_blocks, num_blocks)
    near = [{*range(max(0, m - half), min(num_blocks, m + half + 1)), *fixed} for m in range(num_blocks)]
    taken = np.full((num_blocks, window_blocks + len(fixed)), num_blocks, np.int32)
    for m, blocks in enumerate(near):
        taken[m, : len(blocks)] = sorted(blocks)
    allowed = jnp.asarray([num_blocks - len(blocks) for blocks in near], jnp.int32)
    uniform = jax.random.uniform(key, (random_blocks, num_blocks), jnp.float32)
    ranks = jnp.full((num_blocks, random_blocks), -1, jnp.int32)
    for number in range(random_blocks):
        last = allowed - random_blocks + number
        drawn = jnp.minimum((uniform[number] * (last + 1).astype(jnp.float32)).astype(jnp.int32), last)
        drawn = jnp.where(jnp.any(ranks == drawn[:, None], axis=1), last, drawn)
        ranks = ranks.at[:, number].set(jnp.where(last < 0, -1, drawn))
    blocks = ranks
    for column in range(taken.shape[1]):  # convert the rank among the allowed blocks to the block number
        blocks = blocks + ((ranks >= 0) & (blocks >= taken[:, column, None])).astype(jnp.int32)
    return blocks


def bigbird_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B T K H"],
    value: Float[Array, "B T K Hv"],
    random_blocks: Int[Array, "M R"] | Int[Array, "K M R"] | None = None,
    *,
    block_size: int,
    window_blocks: int = 3,
    global_blocks: tuple[int, ...] = FIRST_AND_LAST,
    mask: Bool[Array, "B T"] | None = None,
    scale: Scale = None,
) -> Float[Array, "B T N Hv"]:
    """Attention in the graph of window, global and random blocks.

    There are M = ceil(T / block_size) blocks; the last may be shorter. `random_blocks` holds the random blocks of each
    block (see `bigbird_random_blocks`), for all heads or for each key head; numbers outside 0..M-1, such as -1, are
    ignored. Negative numbers in `global_blocks` count from the end. `mask` is True at non-padding keys. `scale` None
    means 1 / sqrt(H). A query with no visible key gives 0. Raises ValueError naming the argument and the axis.

    >>> x, value = jnp.zeros((1, 6, 1, 2)), jnp.eye(6)[None, :, None]  # the result shows the weights
    >>> weights = bigbird_attention(x, x, value, block_size=1, window_blocks=1, global_blocks=(0,))[0, :, 0]
    >>> print((weights > 0).astype(int))  # the first block sees all and is seen by all; the others see themselves
    [[1 1 1 1 1 1]
     [1 1 0 0 0 0]
     [1 0 1 0 0 0]
     [1 0 0 1 0 0]
     [1 0 0 0 1 0]
     [1 0 0 0 0 1]]
    """
    scale = self_attention_scale(query, key, value, mask, scale)
    (B, T), K, P = query.shape[:2], key.shape[2], block_size
    M, half = block_count(T, P), _half_window(window_blocks)
    if T == 0:
        return jnp.zeros((*query.shape[:3], value.shape[3]), query.dtype)
    reach = min(half, M - 1)
    fixed = _global_numbers(global_blocks, M)
    is_fixed = np.isin(np.arange(M), fixed)
    real = real_keys(mask, T)
    real_blocks = split(real, P)  # [B M P]
    keys, values = key_blocks(key, P), key_blocks(value, P)

    local = neighbours(real_blocks & ~is_fixed[:, None], reach, reach, axis=1)
    near = (neighbours(x, reach, reach, axis=2) for x in (keys, values))
    pieces = [Piece._make((*near, local[:, None, :, None, :]))]
    if fixed:
        shared = (x[:, :, np.array(fixed)].reshape(B, K, 1, len(fixed) * P, x.shape[-1]) for x in (keys, values))
        seen = real_blocks[:, np.array(fixed)].reshape(real_blocks.shape[0], 1, 1, 1, len(fixed) * P)
        pieces.append(Piece._make((*shared, seen)))
    if random_blocks is not None and random_blocks.shape[-1]:
        pieces.append(_random_piece(keys, values, real_blocks, random_blocks, is_fixed, half))
    context = join(attend_pieces(query_blocks(query, K, P), pieces, scale), T)
    rows = np.flatnonzero(np.repeat(is_fixed, P)[:T])
    if not len(rows):
        return context
    whole = dot_product_attention(query[:, rows], key, value, mask=real[:, None, None, :], scale=scale)
    return context.at[:, rows].set(whole)


def _random_piece(
    keys: Array, values: Array, real_blocks: Array, random_blocks: Array, is_fixed: np.ndarray, half: int
) -> Piece:
    """The gathered random blocks. Repeated blocks, and blocks in the window or among the global blocks, are masked."""
    _, K, M, P, _ = keys.shape
    if random_blocks.ndim not in (2, 3) or random_blocks.shape[-2] != M:
        raise ValueError(
            f"random_blocks: expected [M R] or [K M R] with M = {M} blocks, got shape {list(random_blocks.shape)}"
        )
    if random_blocks.ndim == 3 and random_blocks.shape[0] != K:
        raise ValueError(f"random_blocks: axis K of [K M R]: expected {K} key heads, got {random_blocks.shape[0]}")
    drawn = as_int32("random_blocks", random_blocks).reshape(-1, M, random_blocks.shape[-1])
    earlier = jnp.tril(jnp.ones((drawn.shape[2],) * 2, bool), -1)
    again = jnp.any((drawn[..., :, None] == drawn[..., None, :]) & earlier, axis=-1)
    inside = (drawn >= 0) & (drawn < M)
    at = jnp.where(inside, drawn, 0)
    far = jnp.abs(drawn - jnp.arange(M, dtype=jnp.int32)[:, None]) > half
    new = inside & ~again & far & ~jnp.asarray(is_fixed)[at]
    visible = new[..., None] & real_blocks[:, at]  # [B K M R P]
    head = jnp.arange(K, dtype=jnp.int32)[:, None, None]
    gathered = (x[:, head, at].reshape(*x.shape[:3], at.shape[-1] * P, x.shape[4]) for x in (keys, values))
    return Piece._make((*gathered, visible.reshape(*visible.shape[:3], 1, at.shape[-1] * P)))


def _half_window(window_blocks: int) -> int:
    if window_blocks < 1 or window_blocks % 2 == 0:
        raise ValueError(f"window_blocks: expected an odd number of blocks, got {window_blocks}")
    return window_blocks // 2


def _global_numbers(global_blocks: tuple[int, ...], count: int) -> list[int]:
    """The sorted, distinct numbers of the global blocks, without those beyond the length."""
    return sorted({number % count for number in global_blocks if -count <= number < count})
