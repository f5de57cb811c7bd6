"""Attention with linear biases, Press, Smith & Lewis 2022 (arXiv 2108.12409), section 3: logit_ij = q_i k_j -
m_n (i - j).

For N = 2^p heads, head n has the slope m_n = 2^(-8n/N), n = 1..N. For other numbers of heads, the slopes are those of
the next lower power of two, followed by every other slope of twice that power, as in the released code. The bias is for
causal attention: keys after the query get a *positive* bias and must be masked. The released code adds m_n j, which
gives the same softmax.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.kernels.shapes import check_shapes


def alibi_slopes(num_heads: int) -> Float[Array, "N"]:
    """The slopes m_n of the heads, in float32. There are no parameters. Raises ValueError for less than one head.

    >>> alibi_slopes(6).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    """
    if num_heads < 1:
        raise ValueError(f"num_heads: expected at least 1, got {num_heads}")
    power = 1 << (num_heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * (n + 1) / power) for n in range(power)]
    between = [2.0 ** (-4 * (2 * n + 1) / power) for n in range(num_heads - power)]
    return jnp.asarray(np.array(slopes + between), jnp.float32)


def alibi_distance_bias(
    num_heads: int,
    query_length: int,
    key_length: int,
    *,
    query_offset: int | Int[Array, ""] = 0,
    bidirectional: bool = False,
) -> Float[Array, "N distances"]:
    """The bias by distance, [N, T + S - 1]. Column j - i + T - 1 is for query i and key j.

    >>> bias = alibi_distance_bias(8, 3, 3)  # by distance, from -(query_length - 1) to key_length - 1
    >>> bias.shape, bias[0].tolist()
    ((8, 5), [-1.0, -0.5, 0.0, 0.5, 1.0])
    """
    return _bias(num_heads, jnp.arange(-(query_length - 1), key_length, dtype=jnp.int32), query_offset, bidirectional)


def alibi_bias(
    num_heads: int,
    query_length: int,
    key_length: int,
    *,
    query_offset: int | Int[Array, ""] = 0,
    bidirectional: bool = False,
) -> Float[Array, "1 N T S"]:
    """-m_n (i - j) as a bias for the logits, in float32.

    `query_offset` is the position of the first query, for cached decoding. `bidirectional` gives -m_n |i - j|, for
    encoders (not in the paper). Raises ValueError naming the argument.

    >>> print(alibi_bias(8, 3, 3)[0, 0])  # the first head's slope is 1/2
    [[ 0.   0.5  1. ]
     [-0.5  0.   0.5]
     [-1.  -0.5  0. ]]
    """
    query = jnp.arange(query_length, dtype=jnp.int32)[:, None]
    return _bias(num_heads, jnp.arange(key_length, dtype=jnp.int32) - query, query_offset, bidirectional)[None]


def _bias(num_heads: int, distance: Array, query_offset: int | Array, bidirectional: bool) -> Float[Array, "N *D"]:
    """m_n times the distance key - query, or minus its magnitude."""
    offset = as_int32("query_offset", query_offset)
    check_shapes(query_offset=(offset, ""))
    distance = distance - offset
    distance = (-jnp.abs(distance) if bidirectional else distance).astype(jnp.float32)
    return jnp.einsum("N,...->N...", alibi_slopes(num_heads), distance)
