"""Sparse Sinkhorn attention, Tay et al. 2020 (arXiv 2002.11296), section 3:
softmax(q_i [S k; k]_b^T / sqrt(H)) [S v; v]_b with b the block of i, (S k)_b = sum_c S_bc k_c and S = Sinkhorn(R).

The keys are split into blocks. A soft permutation S of blocks, computed from learned scores R [blocks blocks], gives
each block of queries one mixed block of keys. Queries attend to the mixed block and to their own block. Only R and S
are quadratic, in the number of blocks.

In the causal form, block b receives only blocks before b, and the normalization of columns includes only rows up to b,
so that scores of later blocks have no effect; block 0 receives nothing. `combine="joint"` has one softmax over both
blocks. "sum" adds two softmaxes, as in the authors' Long Range Arena code. That code also clips the logarithm of R and
includes padding; here padded keys and blocks of padding contribute nothing.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

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
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes

#: The logarithm of entries that are masked.
LOWEST = -1e30


def block_summaries(
    x: Float[Array, "B T D"], block_size: int, *, mask: Bool[Array, "B T"] | None = None, is_causal: bool = False
) -> Float[Array, "B C D"]:
    """The inputs of the sorting network: the sum of the positions of each block.

    In the causal form, it is the sum of all positions up to and including the first one of the block. Padding is
    excluded.

    >>> x = jnp.arange(4.0).reshape(1, 4, 1)
    >>> block_summaries(x, 2).ravel().tolist()  # the sum of each block
    [1.0, 5.0]
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
    """Computes S from exp((R + Gumbel noise) / temperature), by normalizing rows, then columns, `iterations` times.

    It is computed in logarithms, in float32. Without a `random_key` there is no noise. Rows and columns of padding
    blocks (`mask` False) are 0. If not causal, S converges to a doubly stochastic matrix. If causal, only entries with
    c < b remain, and the sum of a column ends at the row of the entry. Raises ValueError naming the argument and the
    axis.

    >>> scores = jax.random.normal(jax.random.key(0), (1, 1, 3, 3))
    >>> sorting = sinkhorn(scores, iterations=20)[0, 0]
    >>> print(sorting.sum(axis=0), sorting.sum(axis=1))  # doubly stochastic
    [1. 1. 1.] [1. 1. 1.]
    """
    sizes = check_shapes(scores=(scores, "B K C C"), mask=(mask, "B C"))
    if iterations < 0:
        raise ValueError(f"iterations: expected at least 0, got {iterations}")
    if not temperature > 0:
        raise ValueError(f"temperature: expected more than 0, got {temperature}")
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
    scale: Scale = None,
) -> Float[Array, "B T N Hv"]:
    """Sinkhorn attention with time O(T block_size H + C T H) and memory O(T block_size + C^2).

    There are C = T / block_size blocks. `scores` is R; row b holds the scores of each block of keys for block b of
    queries, computed by a network from `block_summaries`. `mask` is True at non-padding keys; a mixed position is
    visible if at least one block that may be mixed in has a non-padding key at this position. A query with no visible
    key gives 0 with gradient 0. K divides N. `scale` None means 1 / sqrt(H). Raises ValueError naming the argument and
    the axis.

    >>> x, value = jnp.zeros((1, 4, 1, 2)), jnp.eye(4)[None, :, None]  # the result shows the weights
    >>> swap = 20 * jnp.array([[[[0.0, 1.0], [1.0, 0.0]]]])  # each of two blocks also reads the other
    >>> print(sinkhorn_attention(x, x, value, swap, block_size=2)[0, :, 0])
    [[0.25 0.25 0.25 0.25]
     [0.25 0.25 0.25 0.25]
     [0.25 0.25 0.25 0.25]
     [0.25 0.25 0.25 0.25]]
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
    """Whether each block may receive each other block."""
    pairs = jnp.tril(jnp.ones((1, blocks, blocks), bool), -1 if is_causal else blocks)
    return pairs if real is None else pairs & real[:, :, None] & real[:, None, :]


def _log_sum(x: Array, there: Array, axis: int) -> Array:
    """The log-sum-exp over the unmasked entries along an axis, or 0 if there are none."""
    largest = lax.stop_gradient(jnp.max(jnp.where(there, x, LOWEST), axis=axis, keepdims=True))
    terms = jnp.exp(jnp.where(there, x - largest, LOWEST))
    total = jnp.sum(terms, axis=axis, keepdims=True)
    return jnp.log(jnp.where(total > 0, total, jnp.ones_like(total))) + jnp.where(total > 0, largest, 0.0)


def _log_sum_so_far(x: Array, there: Array) -> Array:
    """The cumulative log-sum-exp down each column up to each row. Sums are relative to the largest entry so far."""

    def add(one, other):
        largest = jnp.maximum(one[0], other[0])
        return largest, one[1] * jnp.exp(one[0] - largest) + other[1] * jnp.exp(other[0] - largest)

    exponents = lax.stop_gradient(jnp.where(there, x, LOWEST))
    terms = jnp.exp(jnp.where(there, x - exponents, LOWEST))
    largest, total = lax.associative_scan(add, (exponents, terms), axis=x.ndim - 2)
    return jnp.log(jnp.where(total > 0, total, jnp.ones_like(total))) + jnp.where(total > 0, largest, 0.0)
