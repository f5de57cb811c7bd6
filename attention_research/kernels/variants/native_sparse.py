"""Native sparse attention (NSA), Yuan et al. 2025 (arXiv 2502.11089), section 3: g_c (softmax over block means) V_means
+ g_s (softmax over the keys of the chosen blocks) V + g_w (softmax over a window) V.

The compressed branch attends to the means of keys and values of complete blocks. The selected branch attends to the
keys of the blocks with the largest probability in the compressed branch, summed over the query heads of a group; the
query's own block, the one before it and the first one come before all others. The choice has no gradient. The gates are
computed by the layer. As in the released Triton code of flash-linear-attention, blocks have one size, are pooled by
their mean, and the branches share keys and values; the paper compresses overlapping blocks with a network. Blocks are
counted from the first visible key. This form computes all logits.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention.arguments import Scale, softmax_or_zero
from attention_research.kernels.attention.pairs import pair_logits, weighted_values
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.variants.example_blocks import ExampleBlocks, example_blocks, largest_blocks


def native_sparse_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    gates: Float[Array, "B T N 3"],
    mask: Bool[Array, "#B 1 #T #S"] | None = None,
    *,
    block_size: int,
    num_blocks: int,
    window: int,
    scale: Scale = None,
    query_offset: int | Int[Array, ""] = 0,
) -> Float[Array, "B T N Hv"]:
    """Causal attention in three branches: compressed, selected, window. `gates` are their factors in this order.

    `num_blocks` blocks of `block_size` keys are selected. A query sees `window` keys before itself in the window.
    Query i is at position i + `query_offset` of the keys. Other arguments are those of `dot_product_attention`. A query
    with no visible key gives 0 with gradient 0. Raises ValueError naming the argument and the axis.

    >>> x, value = jnp.ones((1, 4, 1, 1)), jnp.eye(4)[None, :, None]  # the result shows the weights
    >>> compressed = jnp.broadcast_to(jnp.array([1.0, 0, 0]), (1, 4, 1, 3))
    >>> sizes = dict(block_size=2, num_blocks=1, window=1)
    >>> print(native_sparse_attention(x, x, value, compressed, **sizes)[0, :, 0])  # nothing before the first block ends
    [[0.   0.   0.   0.  ]
     [0.5  0.5  0.   0.  ]
     [0.5  0.5  0.   0.  ]
     [0.25 0.25 0.25 0.25]]
    """
    if num_blocks < 1 or window < 0:
        raise ValueError(f"num_blocks, window: expected at least 1 and 0, got {num_blocks} and {window}")
    check_shapes(query=(query, "B T N H"), gates=(gates, "B T N 3"), mask=(mask, "#B 1 #T #S"))
    logits, visible = pair_logits(
        query, key, mask, value=value, scale=scale, is_causal=True, query_offset=query_offset
    )  # fmt: skip
    blocks = example_blocks(visible, block_size, query_offset)
    counts = blocks.sums(jnp.ones(visible.shape, logits.dtype))
    number = jnp.arange(blocks.number, dtype=jnp.int32)
    complete = ((number + 1) * block_size <= blocks.place + 1) & (counts > 0)
    counts = jnp.maximum(counts, 1)
    by_block = softmax_or_zero(blocks.sums(logits) / counts, complete)
    compressed = jnp.where(visible, blocks.spread(by_block / counts), jnp.zeros_like(logits))
    chosen = _chosen(by_block, complete, blocks, key.shape[2], num_blocks)
    selected = softmax_or_zero(logits, visible & blocks.spread(chosen))
    distance = blocks.place + blocks.start - jnp.arange(logits.shape[3], dtype=jnp.int32)
    near = softmax_or_zero(logits, visible & (distance <= window))
    factor = jnp.moveaxis(gates.astype(logits.dtype), (3, 2), (0, 2))[..., None]
    return weighted_values(factor[0] * compressed + factor[1] * selected + factor[2] * near, value)


def _chosen(
    by_block: Array, complete: Array, blocks: ExampleBlocks, groups: int, num_blocks: int
) -> Bool[Array, "B N T blocks"]:
    """The blocks of the selected branch. The heads of a group choose the same ones."""
    B, N, T, count = by_block.shape
    number = jnp.arange(count, dtype=jnp.int32)
    scores = lax.stop_gradient(by_block).reshape(B, groups, N // groups, T, count).sum(2)
    scores = jnp.where(complete, scores, -jnp.inf)
    above = jnp.asarray(N, scores.dtype)  # probabilities of a group add up to at most N
    scores = jnp.where(number == 0, above + 1, scores)
    scores = jnp.where(number == blocks.own - 1, above + 2, scores)
    scores = jnp.where(number == blocks.own, above + 3, scores)
    return jnp.repeat(largest_blocks(scores, num_blocks), N // groups, axis=1)
