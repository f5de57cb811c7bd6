"""FIRE, Li et al. 2023 (arXiv 2310.04418): logit_ij = q_i k_j + f(log(c (i - j) + 1) /
log(c max(i, L) + 1)), f a network from 1 to N numbers.

The distance is divided by the position of the query, so that the network sees numbers from 0 to 1 at any length. The
threshold L keeps small distances apart for early queries. f has one hidden layer with ReLU; c and L are learned. The
network's output bias is left out, because it is the same for all keys. The bias is for causal attention: keys after the
query get that of distance 0 and must be masked.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention.pairs import visible_counts
from attention_research.kernels.integers import as_int32
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes


def fire_bias(
    slope: Float[Array, ""],
    threshold: Float[Array, ""],
    hidden_kernel: Float[Array, "F"],
    hidden_bias: Float[Array, "F"],
    output_kernel: Float[Array, "F N"],
    query_length: int,
    key_length: int,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    query_offset: int | Int[Array, ""] = 0,
) -> Float[Array, "B N T S"]:
    """The bias in float32; of one batch element and all heads if there is no mask.

    The absolute values of `slope` (c) and `threshold` (L) are used. Query i is at position i + `query_offset` of the
    keys. With a mask, its position is the number of earlier visible keys, so that packed examples and padding on the
    left count from the start of the example. The mask must be the same for all heads. Raises ValueError naming the
    argument and the axis.

    >>> ones = jnp.ones(1)
    >>> print(fire_bias(jnp.float32(1), jnp.float32(0), ones, 0 * ones, ones[:, None], 3, 3)[0, 0])
    [[0.   0.   0.  ]
     [1.   0.   0.  ]
     [1.   0.63 0.  ]]
    """
    offset = as_int32("query_offset", query_offset)
    check_shapes(
        slope=(slope, ""), threshold=(threshold, ""), hidden_kernel=(hidden_kernel, "F"),
        hidden_bias=(hidden_bias, "F"), output_kernel=(output_kernel, "F N"), mask=(mask, "#B 1 #T #S"),
        query_offset=(offset, ""),
    )  # fmt: skip
    dtype = accumulator(slope.dtype)
    slope, threshold = jnp.abs(slope.astype(dtype)), jnp.abs(threshold.astype(dtype))
    rows = jnp.arange(query_length, dtype=jnp.int32) + offset
    position = rows[None]
    if mask is not None:
        counts = visible_counts(query_length, key_length, mask, is_causal=True, query_offset=query_offset)
        position = jnp.maximum(counts[:, 0] - 1, 0)
    distance = jnp.maximum(rows[:, None] - jnp.arange(key_length, dtype=jnp.int32), 0).astype(dtype)
    largest = jnp.log1p(slope * jnp.maximum(position.astype(dtype), threshold))[:, :, None]
    safe = jnp.where(largest > 0, largest, jnp.ones_like(largest))
    ratio = jnp.where(largest > 0, jnp.log1p(slope * distance) / safe, jnp.zeros_like(distance))
    hidden = jax.nn.relu(ratio[..., None] * hidden_kernel.astype(dtype) + hidden_bias.astype(dtype))
    return jnp.einsum("BTSF,FN->BNTS", hidden, output_kernel.astype(dtype))
