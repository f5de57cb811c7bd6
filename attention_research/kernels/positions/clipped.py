"""A learned bias for each clipped distance, Ontanon et al. 2021 (arXiv 2108.04378), "rel-b": logit_ij = q_i k_j scale +
table[clip(j - i, -k, k) + k].

Each head has its own column of the table. The distances are those of Shaw et al. 2018, and the bias is a number instead
of a vector. Queries and keys may be positions of two sequences.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from attention_research.kernels.attention.distances import dense
from attention_research.kernels.integers import as_int32
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes


def clipped_distance_bias(
    table: Float[Array, "R N"], query_length: int, key_length: int, *, query_offset: int | Int[Array, ""] = 0
) -> Float[Array, "N distances"]:
    """The bias by distance, [N, T + S - 1], in float32. Column j - i + T - 1 is for query i and key j.

    The table has R = 2k+1 rows for the distances -k to k. `query_offset` is the position of the first query, for cached
    decoding. Raises ValueError naming the argument.

    >>> table = jnp.array([[3.0], [0.0], [5.0]])  # a key to the left, the query's own position, a key to the right
    >>> clipped_distance_bias(table, 3, 2)[0].tolist()  # distances -2 to 1
    [3.0, 3.0, 0.0, 5.0]
    """
    offset = as_int32("query_offset", query_offset)
    check_shapes(table=(table, "R N"), query_offset=(offset, ""))
    if table.shape[0] % 2 == 0:
        raise ValueError(f"table: axis R of [R N]: expected an odd number, 2k+1, got {table.shape[0]}")
    k = table.shape[0] // 2
    distance = jnp.arange(-(query_length - 1), key_length, dtype=jnp.int32) - offset
    return jnp.take(table.astype(accumulator(table.dtype)), jnp.clip(distance, -k, k) + k, axis=0).T


def clipped_bias(
    table: Float[Array, "R N"], query_length: int, key_length: int, *, query_offset: int | Int[Array, ""] = 0
) -> Float[Array, "1 N T S"]:
    """The bias of every pair of query and key, with the arguments of `clipped_distance_bias`.

    >>> print(clipped_bias(jnp.array([[3.0], [0.0], [5.0]]), 2, 3)[0, 0])
    [[0. 5. 5.]
     [3. 0. 5.]]
    """
    return dense(clipped_distance_bias(table, query_length, key_length, query_offset=query_offset), query_length)
