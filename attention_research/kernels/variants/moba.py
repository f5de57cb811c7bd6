"""Mixture of block attention (MoBA), Lu et al. 2025 (arXiv 2502.13189), section 2.2: softmax(Q K^T scale) V over the
keys of the query's own block and of the k - 1 earlier blocks with the largest q_i mean(k_block).

Each head of each query chooses its blocks. The choice has no parameters and no gradient. `top_k` counts the query's own
block, as in the released code. With as many blocks as there are it is causal attention. Blocks are counted from the
first visible key, so that packed examples choose among their own blocks. All logits are computed.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.attention.pairs import pair_logits
from attention_research.kernels.variants.example_blocks import example_blocks, largest_blocks


def moba_mask(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    block_size: int,
    top_k: int,
    query_offset: int | Int[Array, ""] = 0,
) -> Bool[Array, "B N T S"]:
    """The keys of the `top_k` blocks of `block_size` keys that each query chooses, its own block included.

    Keys that `mask` or causality hides are not in it. Query i is at position i + `query_offset` of the keys. Raises
    ValueError naming the argument and the axis.

    >>> x = jnp.ones((1, 4, 1, 1))
    >>> print(moba_mask(x, x, block_size=2, top_k=1)[0, 0].astype(int))
    [[1 0 0 0]
     [1 1 0 0]
     [0 0 1 0]
     [0 0 1 1]]
    """
    if top_k < 1:
        raise ValueError(f"top_k: expected at least 1, got {top_k}")
    query, key = lax.stop_gradient((query, key))
    logits, visible = pair_logits(query, key, mask, is_causal=True, query_offset=query_offset)
    blocks = example_blocks(visible, block_size, query_offset)
    number = jnp.arange(blocks.number, dtype=jnp.int32)
    counts = blocks.sums(jnp.ones(visible.shape, logits.dtype))
    means = blocks.sums(logits) / jnp.maximum(counts, 1)
    scores = jnp.where((number < blocks.own) & (counts > 0), means, -jnp.inf)
    chosen = jnp.broadcast_to(number == blocks.own, scores.shape)
    if top_k > 1:
        chosen = chosen | largest_blocks(scores, top_k - 1)
    return visible & blocks.spread(chosen)


def moba_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    block_size: int,
    top_k: int,
    scale: Scale = None,
    query_offset: int | Int[Array, ""] = 0,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """Causal attention to the keys of `moba_mask`.

    Other arguments are those of `dot_product_attention`. A query with no visible key gives 0 with gradient 0. Raises
    ValueError naming the argument and the axis.

    >>> x, value = jnp.ones((1, 4, 1, 1)), jnp.eye(4)[None, :, None]  # the result shows the weights
    >>> print(moba_attention(x, x, value, block_size=2, top_k=1)[0, :, 0])
    [[1.  0.  0.  0. ]
     [0.5 0.5 0.  0. ]
     [0.  0.  1.  0. ]
     [0.  0.  0.5 0.5]]
    """
    shown = moba_mask(query, key, mask, block_size=block_size, top_k=top_k, query_offset=query_offset)
    return dot_product_attention(query, key, value, mask=shown, scale=scale, implementation=implementation)
