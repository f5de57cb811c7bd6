"""Reformer LSH attention, Kitaev, Kaiser & Levskaya 2020 (arXiv 2001.04451), section 2 and appendix A:
o_i = sum_r exp(z_i^r - z_i) sum_{j in P_i^r} exp(q_i k_j / sqrt(H) - log N_ij - z_i^r) v_j with k_j = q_j / |q_j|.

In each round r, positions are sorted by bucket (equal buckets by position) and split into chunks. P_i^r is the chunk of
i and the previous chunk, including keys of other buckets and excluding i itself. N_ij is the number of rounds in which
j is in P_i, so that each key counts once. `count_repeats=True` omits log N_ij, as the released code does by default. A
query without other keys in all rounds returns its own value (the limit of the paper's logit of -10^5 for j = i).

The paper omits the scale "for clarity". In the released code, keys have the norm sqrt(H), which corresponds to scale=1
here. In the released code, the first chunk also attends to the last one; here, as in the paper's text, the first chunk
has no previous chunk.

In the causal form, there are no gradients from the future, but the *bucket* of a later position affects which earlier
positions share a chunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention.arguments import Scale, softmax_or_zero
from attention_research.kernels.directions import direction
from attention_research.kernels.integers import as_int32
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.symbolic import expect_numbers

#: The bucket of padding, which is after all other buckets.
LAST_BUCKET = 2**31 - 1


def lsh_buckets(query: Float[Array, "B T N H"], rotations: Float[Array, "H R C"]) -> Int[Array, "B T N R"]:
    """h(x) = argmax([xR; -xR]): one of 2C buckets in each of R rounds. `rotations` are standard normal.

    Vectors of similar direction are in the same bucket with high probability. Buckets are integers without gradient.

    >>> query = jnp.array([[1.0, 0.0], [0.9, 0.1], [-1.0, 0.0]]).reshape(1, 3, 1, 2)
    >>> print(lsh_buckets(query, jnp.eye(2).reshape(2, 1, 2)).ravel())  # near vectors share a bucket
    [0 0 2]
    """
    check_shapes(query=(query, "B T N H"), rotations=(rotations, "H R C"))
    turned = einsum("BTNH,HRC->BTNRC", query, rotations.astype(query.dtype))
    return jnp.argmax(jnp.concatenate([turned, -turned], axis=-1), axis=-1).astype(jnp.int32)


def lsh_attention(
    query: Float[Array, "B T N H"],
    value: Float[Array, "B T N Hv"],
    buckets: Int[Array, "B T N R"],
    *,
    chunk_size: int,
    chunks_before: int = 1,
    mask: Bool[Array, "B T"] | None = None,
    is_causal: bool = False,
    count_repeats: bool = False,
    scale: Scale = None,
) -> Float[Array, "B T N Hv"]:
    """Attention within chunks of positions sorted by bucket, with time and memory O(R T chunk_size).

    Queries are also the keys. `buckets` is `lsh_buckets(query, rotations)` or any other grouping of positions. With a
    single chunk, this is attention to all other positions. `chunks_before` is the number of previous chunks that a
    query attends to. `mask` is True at non-padding positions; padding is sorted after all buckets. A query without any
    visible position, itself included, gives 0 with gradient 0. `scale` None means 1 / sqrt(H). Raises ValueError naming
    the argument and the axis.

    >>> x, value = jnp.ones((1, 4, 1, 2)), jnp.eye(4)[None, :, None]  # the result shows the weights
    >>> buckets = jnp.array([0, 1, 0, 1]).reshape(1, 4, 1, 1)
    >>> weights = lsh_attention(x, value, buckets, chunk_size=2, chunks_before=0)[0, :, 0]
    >>> print(weights)  # positions of the same bucket; a position sees itself only if it is alone
    [[0. 0. 1. 0.]
     [0. 0. 0. 1.]
     [1. 0. 0. 0.]
     [0. 1. 0. 0.]]
    """
    sizes = check_shapes(
        query=(query, "B T N H"), value=(value, "B T N Hv"), buckets=(buckets, "B T N R"), mask=(mask, "B T")
    )
    if chunk_size < 1:
        raise ValueError(f"chunk_size: expected at least 1, got {chunk_size}")
    if chunks_before < 0:
        raise ValueError(f"chunks_before: expected at least 0, got {chunks_before}")
    B, T, N, H, Hv, R = (sizes[axis] for axis in ("B", "T", "N", "H", "Hv", "R"))
    buckets = as_int32("buckets", buckets)
    dtype = accumulator(query.dtype)
    scale = H**-0.5 if scale is None else scale
    expect_numbers("chunk_size", T=T)
    if T == 0:
        return jnp.zeros((B, T, N, Hv), query.dtype)
    size = min(chunk_size, T)
    chunks = math.ceil(T / size)
    before = min(chunks_before, chunks - 1)
    real = jnp.ones((B, T), bool) if mask is None else mask
    query, value = (jnp.where(real[:, :, None, None], x, jnp.zeros_like(x)) for x in (query, value))

    pad = chunks * size - T
    real = jnp.pad(real, ((0, 0), (0, pad)))
    places = jnp.pad(buckets, ((0, 0), (0, pad), (0, 0), (0, 0)))
    places = jnp.where(real[:, :, None, None], places, LAST_BUCKET).transpose(0, 2, 3, 1)  # [B N R T]
    order = jnp.argsort(places, axis=-1, stable=True).astype(jnp.int32)
    back = jnp.argsort(order, axis=-1).astype(jnp.int32)
    chunk = back // size

    heads, values = (jnp.pad(x, ((0, 0), (0, pad), (0, 0), (0, 0))).swapaxes(1, 2) for x in (query, value))
    keys, reals = direction(heads), jnp.broadcast_to(real[:, None], (B, N, chunks * size))

    def chunked(x: Array, order: Array) -> Array:
        """Sorts x [B N T ...] in the order of a round and splits it into chunks: [B N M P ...]."""
        return _take(x, order).reshape(B, N, chunks, size, *x.shape[3:])

    def with_before(x: Array) -> Array:
        """Prepends the `before` previous chunks to each chunk: [B N M P ...] -> [B N M (before + 1) P ...]."""
        x = jnp.pad(x, [(before if axis == 2 else 0, 0) for axis in range(x.ndim)])
        return jnp.concatenate([x[:, :, step : step + chunks] for step in range(before + 1)], axis=3)

    @jax.checkpoint
    def one(sorted_: tuple[Array, Array]) -> tuple[Array, Array]:
        """Returns (context [B N T Hv], log-sum-exp [B N T]) of a round, in the order of positions."""
        order, back = sorted_
        near = with_before(chunked(keys, order))
        logits = einsum("BNMPH,BNMQH->BNMPQ", chunked(heads, order), near) * jnp.asarray(scale, dtype)
        position = order.reshape(B, N, chunks, size)
        there = with_before(chunked(reals, order))  # False before the first chunk
        i, j = position[..., :, None], with_before(position)[..., None, :]
        visible = there[..., None, :] & (i != j)
        if is_causal:
            visible = visible & (j < i)
        if not count_repeats and R > 1:
            logits = logits - jnp.log(_rounds(chunk, lambda x: chunked(x, order), with_before, before).astype(dtype))
        logits = jnp.where(visible, logits, -jnp.inf)
        largest = lax.stop_gradient(jnp.max(logits, axis=-1))
        largest = jnp.where(largest == -jnp.inf, jnp.zeros_like(largest), largest)
        weights = jnp.exp(logits - largest[..., None])
        products = einsum("BNMPQ,BNMQH->BNMPH", weights.astype(value.dtype), with_before(chunked(values, order)))
        total = weights.sum(-1)
        some = jnp.where(total > 0, total, jnp.ones_like(total))
        logged = jnp.where(total > 0, largest + jnp.log(some), -jnp.inf)
        restored = lambda x: _take(x.reshape(B, N, chunks * size, *x.shape[4:]), back)
        return restored(products / some[..., None]), restored(logged)

    contexts, logged = lax.map(one, (jnp.moveaxis(order, 2, 0), jnp.moveaxis(back, 2, 0)))
    shares = softmax_or_zero(jnp.moveaxis(logged, 0, -1))
    context = einsum("RBNTH,BNTR->BNTH", contexts, shares)
    alone = jnp.all(logged == -jnp.inf, axis=0)[..., None]
    context = jnp.where(alone, values.astype(dtype), context)  # 0 at padding
    return context[:, :, :T].swapaxes(1, 2).astype(query.dtype)


def _take(x: Array, rows: Array) -> Array:
    """x[..., rows, ...] along the last axis of `rows`. The other axes of `rows` are the leading axes of x."""
    return jnp.take_along_axis(x, rows.reshape(*rows.shape, *(1,) * (x.ndim - rows.ndim)), axis=rows.ndim - 1)


def _rounds(chunk: Int[Array, "B N R T"], chunked: Callable, with_before: Callable, before: int) -> Array:
    """N_ij [B N M P Q], the number of rounds in which query i sees the chunk of key j. `chunk` holds the chunks."""
    count = 0
    for other in range(chunk.shape[2]):
        there = chunked(chunk[:, :, other])
        apart = there[..., :, None] - with_before(there)[..., None, :]
        count = count + ((apart >= 0) & (apart <= before)).astype(jnp.int32)
    return jnp.maximum(count, 1)
