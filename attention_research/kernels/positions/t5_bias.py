"""The relative position bias of T5, Raffel et al. 2020 (arXiv 1910.10683), section 2.1: logit_ij = q_i k_j +
table[bucket(j - i), n].

The paper does not define the buckets; these are the buckets of the released code. Its logits are not divided by
sqrt(H).
"""

from __future__ import annotations

import math

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from attention_research.kernels.attention.distances import dense
from attention_research.kernels.integers import as_int32
from attention_research.kernels.shapes import check_shapes


def t5_buckets(
    distance: Int[Array, "*D"], *, bidirectional: bool, num_buckets: int = 32, max_distance: int = 128
) -> Int[Array, "*D"]:
    """The bucket of each distance j - i (key minus query position).

    If bidirectional, the upper half of the buckets is for keys after the query. Otherwise, such keys share bucket 0
    with the query's own position. Half of the buckets of a side are for exact distances. The others are logarithmic up
    to `max_distance`, and larger distances share the last bucket. Raises ValueError if there is no exact bucket, or if
    `max_distance` leaves no logarithmic bucket.

    >>> distance = jnp.array([-100, -20, -8, -1, 0, 1])  # key minus query
    >>> t5_buckets(distance, bidirectional=False).tolist()  # exact when near, logarithmic when far; later keys share 0
    [30, 17, 8, 1, 0, 0]
    """
    distance = as_int32("distance", distance)
    bucket = jnp.zeros_like(distance)
    if bidirectional:
        num_buckets //= 2
        bucket = jnp.where(distance > 0, num_buckets, 0).astype(distance.dtype)
        distance = jnp.abs(distance)
    else:
        distance = jnp.maximum(-distance, 0)
    exact = num_buckets // 2
    if exact < 1 or max_distance <= exact:
        raise ValueError(
            f"num_buckets: {exact} exact buckets a side; expected at least 1, below max_distance {max_distance}"
        )
    ratio = jnp.log(jnp.maximum(distance, 1).astype(jnp.float32) / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).astype(distance.dtype)
    return bucket + jnp.where(distance < exact, distance, jnp.minimum(far, num_buckets - 1))


def t5_distance_bias(
    table: Float[Array, "buckets N"],
    query_length: int,
    key_length: int,
    *,
    bidirectional: bool,
    max_distance: int = 128,
    query_offset: int | Int[Array, ""] = 0,
) -> Float[Array, "N distances"]:
    """The bias by distance, [N, T + S - 1]. Column j - i + T - 1 is for query i and key j.

    Its gradient is a small matrix product. A table entry of -inf masks its distances and has gradient 0. Raises
    ValueError naming the argument.

    >>> table = jnp.arange(32.0)[:, None]  # one head: the bias is the number of the bucket
    >>> t5_distance_bias(table, 3, 3, bidirectional=False)[0].tolist()  # distances -2 ... 2
    [2.0, 1.0, 0.0, 0.0, 0.0]
    """
    offset = as_int32("query_offset", query_offset)
    buckets = check_shapes(table=(table, "buckets N"), query_offset=(offset, ""))["buckets"]
    distances = jnp.arange(-(query_length - 1), key_length, dtype=jnp.int32) - offset
    index = t5_buckets(distances, bidirectional=bidirectional, num_buckets=buckets, max_distance=max_distance)
    chosen = index[:, None] == jnp.arange(buckets, dtype=jnp.int32)
    hidden = table == -jnp.inf  # 0 times -inf in the product would be NaN
    product = jnp.einsum("DR,RN->ND", chosen.astype(table.dtype), jnp.where(hidden, jnp.zeros_like(table), table))
    return jnp.where(jnp.any(chosen[:, :, None] & hidden, axis=1).T, -jnp.inf, product)


def t5_relative_bias(
    table: Float[Array, "buckets N"],
    query_length: int,
    key_length: int,
    *,
    bidirectional: bool,
    max_distance: int = 128,
    query_offset: int | Int[Array, ""] = 0,
) -> Float[Array, "1 N T S"]:
    """table[bucket(j - i), n] as a bias for the logits of head n.

    T5 adds it to logits that are not divided by sqrt(H): pass `scale=1` to the attention for that. `query_offset` is
    the position of the first query, for cached decoding. The bias depends only on j - i, so that one row of T + S - 1
    distances is looked up and shifted into [T S].

    >>> table = jnp.arange(32.0)[:, None]  # one head: the bias is the number of the bucket
    >>> print(t5_relative_bias(table, 3, 3, bidirectional=False)[0, 0])
    [[0. 0. 0.]
     [1. 0. 0.]
     [2. 1. 0.]]
    """
    by_distance = t5_distance_bias(
        table, query_length, key_length,
        bidirectional=bidirectional, max_distance=max_distance, query_offset=query_offset,
    )  # fmt: skip
    return dense(by_distance, query_length)
