"""Contextual position encoding (CoPE), Golovneva et al. 2024 (arXiv 2405.18719):
softmax(Q K^T / sqrt(H) + q_i e[p_ij]) V.

The position p_ij counts the keys from j to i that the sigmoid of the scores selects (`kernels.contextual_attention`).
The table e [P H] is shared by the heads and starts at 0.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.kernels.positions import contextual_bias
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.signatures import Positive


class ContextualAttention(MultiHeadAttention):
    """Scaled dot-product attention with positions that depend on the context, for decoders.

    `num_positions` is P; positions from P - 1 on share the last row of the table.
    """

    def __init__(self, *, num_positions: Positive = 16, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.position_table = nnx.Param(jnp.zeros((num_positions, self.head_width), jnp.float32))

    def bias(self, query: Array, key: Array, where: Where) -> Array:
        """q_i e[p_ij]."""
        return contextual_bias(
            query, key, self.position_table[...].astype(query.dtype), where.mask, is_causal=True,
            query_offset=where.offset,
        )  # fmt: skip
