"""Positions added to queries, keys and values in every layer, after Carion et al. 2020 (arXiv 2005.12872), section 3.2:
softmax((q_i + p_i)^T (k_j + p_j) / sqrt(H)) (v_j + p_j).

p is the sinusoid of a head's width, the same for every head. (The paper, which reads images, adds it to queries and
keys alone.) Nothing is added to the embeddings: take it with no positions there.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from attention_research.kernels import sinusoidal_positions
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.signatures import Positive


class PositionalAttention(MultiHeadAttention):
    """No parameters beside the projections; positions stay below `max_length`. A cache holds keys and values as they
    were projected, and a step adds their positions to all of them."""

    def __init__(self, *, max_length: Positive, **inherited: Any):
        super().__init__(**inherited)
        self.max_length = max_length

    def prepare(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array, Array]:
        """Each with its positions, the first query's being `where.offset`."""

        def placed(x: Array, first: Any) -> Array:
            places = first + jnp.arange(x.shape[1], dtype=jnp.int32)
            return x + sinusoidal_positions(self.max_length, x.shape[3])[places][:, None].astype(x.dtype)

        return placed(query, where.offset), placed(key, 0), placed(value, 0)
