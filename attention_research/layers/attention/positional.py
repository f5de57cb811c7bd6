"""Position encodings added in every attention layer, after Carion et al. 2020 (arXiv 2005.12872), section 3.2.

The output is softmax((q_i + p_i)^T (k_j + p_j) / sqrt(H)) (v_j + p_j), where p is the sinusoidal encoding with the
width of a head, the same for all heads. (The paper, which uses images, adds it only to queries and keys.) Use it with
embeddings that have no position encodings.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from attention_research.kernels import sinusoidal_positions
from attention_research.kernels.symbolic import may_exceed
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.signatures import Positive


class PositionalAttention(MultiHeadAttention):
    """Attention with positions added to queries, keys and values, for sequences up to `max_length`.

    It has no parameters besides the projections. A cache holds keys and values without positions, and each decoding
    step adds the positions to all of them. Raises ValueError for longer sequences, and for a symbolic length that may
    be longer.
    """

    def __init__(self, *, max_length: Positive, **inherited: Any):
        super().__init__(**inherited)
        self.max_length = max_length

    def prepare(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array, Array]:
        """Adds positions to queries, keys and values. The first query is at position `where.offset`."""
        for length in (query.shape[1], key.shape[1]):
            if may_exceed(length, self.max_length):
                raise ValueError(
                    f"positional attention: {length} positions; expected at most max_length {self.max_length}"
                )

        def placed(x: Array, first: Any) -> Array:
            places = first + jnp.arange(x.shape[1], dtype=jnp.int32)
            return x + sinusoidal_positions(self.max_length, x.shape[3])[places][:, None].astype(x.dtype)

        return placed(query, where.offset), placed(key, 0), placed(value, 0)
