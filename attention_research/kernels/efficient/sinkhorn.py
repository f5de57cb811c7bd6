"""Sparse Sinkhorn attention, Tay et al. 2020 (arXiv 2002.11296), section 3:
softmax(q_i [S k; k]_b^T / sqrt(H)) [S v; v]_b with b the block of i, (S k)_b = sum_c S_bc k_c and S = Sinkhorn(R).

The keys are cut into blocks; a soft permutation S of whole blocks, from learned scores R [blocks blocks], brings one
mixed block to each block of queries, which attends to it and to its own. Only R and S are quadratic, in the blocks.

Causal: block b receives from blocks before b alone, and the balancing of columns counts the rows up to b alone, so
that no score of a later block matters; block 0 receives nothing. `combine="joint"` has one softmax over both blocks;
"sum" adds two softmaxes, as the authors' Long Range Arena code does. That code also clips R's logarithm and lets
padding take part; here padded keys and blocks of padding add nothing.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

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
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes

#: The logarithm of what is not there.
LOWEST = -1e30


def block_summaries(
    x: Float[Array, "B T D"], block_size: int, *, mask: Bool[Array, "B T"] | None = None, is_causal: bool = False
) -> Float[Array, "B C D"]:
    """What the sorting network reads of each block: the sum of its positions.

    Causal: the sum of every position up to and including the block's first. Padding adds nothing.
    """
    check_shapes(x=(x, "B T D"), mask=(mask, "B T"))
    wide = x.astype(accumulator(x.dtype))
    wide = wide if mask is None else jnp.where(mask[:, :, None], wide, jnp.zeros_like(wide))
    blocks = split(wide, block_size)
    sums = blocks.sum(2)
    if is_causal:
        sums = jnp.cumsum(sums, axis=1) - sums + blocks[:, :, 0]
    return sums.astype(x.dtype)


def sinkhorn(
    scores: Float[Array, "B K C C"],
    *,
    iterations: int = 5,
    temperature: float = 1.0,
    random_key: PRNGKeyArray | None = None,
    mask: Bool[Array, "B C"] | None = None,
    is_causal: bool = False,
) -> Float[Array, "B K C C"]:
    """S: exp((R + Gumbel noise) / temperature) with rows, then columns, divided by their sums, `iterations` times.

    In logarithms, in float32. The noise is left out where `random_key` is None. Blocks that `mask` (True = real) says
    are padding have no row and no column. Not causal, S tends to a doubly stochastic matrix. Causal, only c < b stays
    and an entry's column is summed down to its own row. Raises ValueError naming the argument and the axis.
    """
    sizes = check_shapes(scores=(scores, "B K C C"), mask=(mask, "B C"))
    x = scores.astype(accumulator(scores.dtype))
    if random_key is not None:
        x = x + jax.random.gumbel(random_key, x.shape, x.dtype)
    there = _pairs(mask, sizes["C"], is_causal)[:, None]
    x = jnp.where(there, x / temperature, jnp.zeros_like(x))

    def balance(x: Array, _: None) -> tuple[Array, None]:
        x = jnp.where(there, x - _log_sum(x, there, -1), jnp.zeros_like(x))
        column = _log_sum_so_far(x, there) if is_causal else _log_sum(x, there, -2)
        return jnp.where(there, x - column, jnp.zeros_like(x)), None

    x, _ = lax.scan(balance, x, None, length=iterations)
    return jnp.where(there, jnp.exp(x), jnp.zeros_like(x))


def sinkhorn_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B T K H"],
    value: Float[Array, "B T K Hv"],
    scores: Float[Array, "B K C C"],
    *,
    block_size: int,
    iterations: int = 5,
    temperature: float = 1.0,
    random_key: PRNGKeyArray | None = None,
    mask: Bool[Array, "B T"] | None = None,
    is_causal: bool = False,
    combine: str = "joint",
    scale: float | int | None = None,
) -> Float[Array, "B T N Hv"]:
    """Time O(T block_size H + C T H) and memory O(T block_size + C^2) for C = T / block_size blocks.

    `scores` is R, row b what block b of queries thinks of each block of keys: a network of `block_summaries`. `mask`
    is True at real keys; a mixed position is seen where some block that may be mixed in has a real key at that place.
    A query that sees nothing gives 0 with gradient 0. K divides N. `scale` None is 1 / sqrt(H). Raises ValueError
    naming the argument and the axis.
    """
    if combine not in ("joint", "sum"):
        raise ValueError(f"combine: expected 'joint' or 'sum', got {combine!r}")
    C = block_count(query.shape[1] if query.ndim == 4 else 1, block_size)
    scale = self_attention_scale(query, key, value, mask, scale, scores=(scores, f"B K {C} {C}"))
    T, K = key.shape[1:3]
    if T == 0:
        return jnp.zeros((*query.shape[:3], value.shape[3]), query.dtype)
    real = real_keys(mask, T)
    key, value = (jnp.where(real[:, :, None, None], x, jnp.zeros_like(x)) for x in (key, value))
    real = jnp.broadcast_to(split(real, block_size), (key.shape[0], C, block_size))

    queries, keys, values = (
        query_blocks(query, K, block_size),
        key_blocks(key, block_size),
        key_blocks(value, block_size),
    )
    weights = sinkhorn(
        scores,
        iterations=iterations,
        temperature=temperature,
        random_key=random_key,
        mask=real.any(-1),
        is_causal=is_causal,
    )
    mixed = (einsum("BKCE,BKEPH->BKCPH", weights.astype(x.dtype), x).astype(x.dtype) for x in (keys, values))
    pairs = _pairs(real.any(-1), C, is_causal)
    seen = jnp.einsum("BCE,BEP->BCP", pairs.astype(jnp.float32), real.astype(jnp.float32)) > 0
    own = real[:, None, :, None]
    own = own & jnp.tril(jnp.ones((block_size, block_size), bool)) if is_causal else own
    pieces = [Piece._make((*mixed, seen[:, None, :, None])), Piece(keys, values, own)]
    if combine == "joint":
        return join(attend_pieces(queries, pieces, scale), T)
    return join(attend_pieces(queries, pieces[:1], scale) + attend_pieces(queries, pieces[1:], scale), T)


def _pairs(real: Bool[Array, "B C"] | None, blocks: int, is_causal: bool) -> Bool[Array, "#B C C"]:
    """Which block may receive from which."""
    pairs = jnp.tril(jnp.ones((1, blocks, blocks), bool), -1 if is_causal else blocks)
    return pairs if real is None else pairs & real[:, :, None] & real[:, None, :]


def _log_sum(x: Array, there: Array, axis: int) -> Array:
    """log sum exp over what is there along an axis; 0 where nothing is."""
    largest = lax.stop_gradient(jnp.max(jnp.where(there, x, LOWEST), axis=axis, keepdims=True))
    terms = jnp.exp(jnp.where(there, x - largest, LOWEST))
    total = jnp.sum(terms, axis=axis, keepdims=True)
    return jnp.log(jnp.where(total > 0, total, jnp.ones_like(total))) + jnp.where(total > 0, largest, 0.0)


def _log_sum_so_far(x: Array, there: Array) -> Array:
    """The same down each column, to the row itself: sums relative to the largest so far."""

    def add(one, other):
        largest = jnp.maximum(one[0], other[0])
        return largest, one[1] * jnp.exp(one[0] - largest) + other[1] * jnp.exp(other[0] - largest)

    exponents = lax.stop_gradient(jnp.where(there, x, LOWEST))
    terms = jnp.exp(jnp.where(there, x - exponents, LOWEST))
    largest, total = lax.associative_scan(add, (exponents, terms), axis=x.ndim - 2)
    return jnp.log(jnp.where(total > 0, total, jnp.ones_like(total))) + jnp.where(total > 0, largest, 0.0)
