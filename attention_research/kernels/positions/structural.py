"""Structural positions, Wang et al. 2019 (arXiv 1909.00383), section 3: d_ij = depth_j - depth_i if one word is an
ancestor of the other in the tree, else (depth_i + depth_j) sign(j - i).

A tree (or forest) is given as head indices [B T]: heads[b, i] is the parent of word i. If it is -1, i itself or outside
of 0 to T - 1, then i is a root. depth is the number of ancestors of a word (the distance from the main verb in the
paper), so that the second case is the path through the root, not through the lowest common ancestor. Signs are those of
key minus query, like j - i of Shaw et al.: positive is below or after the query. Two roots of a forest have distance 0.
Cycles of heads are not a tree and are not detected: words in a cycle count as ancestors of each other. Padding may have
any head; mask it in the attention.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention.arguments import Scale, prepare
from attention_research.kernels.integers import as_int32
from attention_research.kernels.positions.relative import attend_by_distance
from attention_research.kernels.precision import einsum
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.symbolic import expect_numbers


def _above(heads: Int[Array, "B T"]) -> Bool[Array, "B T T"]:
    """[b, i, a] is True if a is i or an ancestor of i. It uses pointer doubling, with log2(T) rounds of [T T]."""
    check_shapes(heads=(heads, "B T"))
    T = heads.shape[1]
    expect_numbers("heads", T=T)
    word = jnp.arange(T, dtype=jnp.int32)
    heads = as_int32("heads", heads)
    pointer = jnp.where((heads < 0) | (heads >= T), word, heads)
    above = jnp.broadcast_to(word[:, None] == word, (*heads.shape, T))
    for _ in range((T - 1).bit_length()):  # `above`: ancestors less than 2^n away; `pointer`: 2^n away
        above = above | jnp.take_along_axis(above, pointer[:, :, None], axis=1)
        pointer = jnp.take_along_axis(pointer, pointer, axis=1)
    return above


def structural_depths(heads: Int[Array, "B T"]) -> Int[Array, "B T"]:
    """The number of ancestors of each word, which is its absolute structural position. A root has 0.

    >>> structural_depths(jnp.array([[1, -1, 3, 1]])).tolist()  # 1 is the root; 2 is below 3, which is below 1
    [[1, 0, 2, 1]]
    """
    return _above(heads).sum(axis=-1, dtype=jnp.int32) - 1


def structural_distances(heads: Int[Array, "B T"]) -> Int[Array, "B T T"]:
    """The relative structural position d_ij from word i to word j; 0 on the diagonal.

    >>> structural_distances(jnp.array([[1, -1, 3, 1]]))[0].tolist()
    [[0, -1, 3, 2], [1, 0, 2, 1], [-3, -2, 0, -1], [-2, -1, 1, 0]]
    """
    above = _above(heads)
    depth = above.sum(axis=-1, dtype=jnp.int32) - 1
    word = jnp.arange(heads.shape[1], dtype=jnp.int32)
    to, of = depth[:, None, :], depth[:, :, None]
    return jnp.where(above | above.swapaxes(1, 2), to - of, (of + to) * jnp.sign(word - word[:, None]))


def structural_encoding(
    sequential: Float[Array, "#B T P"],
    structural: Float[Array, "#B T Q"],
    sequential_weight: Float[Array, "P D"],
    structural_weight: Float[Array, "Q D"],
) -> Float[Array, "B T D"]:
    """tanh(sequential W + structural U): the absolute position from the encodings of word order and of depth.

    The paper specifies only "a nonlinear function". Both of its encodings are sinusoids: `sinusoidal_at` of the
    position and of the depth. An encoding may be [1 T P], for all examples. Sums and tanh are computed in float32.

    >>> sequential, structural = jnp.ones((1, 3, 2)), jnp.ones((1, 3, 5))
    >>> structural_encoding(sequential, structural, jnp.ones((2, 4)), jnp.ones((5, 4))).shape
    (1, 3, 4)
    """
    check_shapes(
        sequential=(sequential, "#B T P"),
        structural=(structural, "#B T Q"),
        sequential_weight=(sequential_weight, "P D"),
        structural_weight=(structural_weight, "Q D"),
    )
    dtype = sequential.dtype
    of_order = einsum("BTP,PD->BTD", sequential, sequential_weight.astype(dtype))
    of_depth = einsum("BTQ,QD->BTD", structural.astype(dtype), structural_weight.astype(dtype))
    return jnp.tanh(of_order + of_depth).astype(dtype)


def structural_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    distances: Int[Array, "B T S"],
    key_table: Float[Array, "R H"],
    value_table: Float[Array, "P Hv"] | None = None,
    *,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    scale: Scale = None,
) -> Float[Array, "B T N Hv"]:
    """Relative attention of Shaw et al. with given distances: row clip(d_ij, -k, k) + k of tables [2k+1 H].

    e_ij = q_i (k_j + a^K_{d_ij})^T scale and z_i = sum_j softmax(e)_ij (v_j + a^V_{d_ij}). `scale` None means
    1 / sqrt(H), and `value_table` None omits a^V. The distances can come from any source, and may be a single row for
    one query in a decoding step. No [T S H] tensor is formed: queries are multiplied by the rows of the key table, and
    the products are gathered; weights are summed by distance before the product with the value table. A query with no
    visible key gives 0 with gradient 0. Raises ValueError naming the axis.

    >>> x, value = jnp.ones((1, 3, 1, 4)), jnp.eye(3)[None, :, None]  # the result shows the weights
    >>> distances = structural_distances(jnp.array([[1, -1, 1]]))  # words 0 and 2 are below word 1
    >>> table = jnp.zeros((3, 4)).at[0].set(20.0)  # distance -1: a word attends to the word above
    >>> print(structural_attention(x, x, value, distances, table)[0, :, 0])
    [[0.   1.   0.  ]
     [0.33 0.33 0.33]
     [0.5  0.5  0.  ]]
    """
    arrays, options = prepare(query, key, value, None, mask, scale, False, None, None, None)
    check_shapes(
        query=(query, "B T N H"),
        key=(key, "B S K H"),
        value=(value, "B S K Hv"),
        distances=(distances, "B T S"),
        key_table=(key_table, "R H"),
        value_table=(value_table, "P Hv"),
    )
    for name, table in (("key_table", key_table), ("value_table", value_table)):
        if table is not None and table.shape[0] % 2 == 0:
            raise ValueError(f"{name}: expected an odd number of rows, 2k+1, got {table.shape[0]}")

    distances = as_int32("distances", distances)

    def spread(by_row: Float[Array, "*A T R"]) -> Float[Array, "*A T S"]:
        k = by_row.shape[-1] // 2
        index = (jnp.clip(distances, -k, k) + k)[:, None, None]
        return jnp.take_along_axis(by_row, jnp.broadcast_to(index, (*by_row.shape[:-1], key.shape[1])), axis=-1)

    return attend_by_distance(arrays._replace(key_table=key_table, value_table=value_table), options, spread)
