"""Relative position representations on keys alone, Shaw, Uszkoreit & Vaswani 2018, equation 4 (their Table 3, a^K).

e_ij = q_i (k_j + a^K_clip(j-i))^T / sqrt(H); z_i = sum_j softmax(e)_ij v_j. The positions affect the attention weights,
but not the values. Each layer has one table, which its heads share. As `cross_relative_keys` (Ontanon et al. 2021,
arXiv 2108.04378, "rel2-e"), j - i is the distance from the position of the target token to that of the source token,
both counted from 0.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.kernels import relative_attention
from attention_research.kernels.positions import relative_weights
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.layers.linear import glorot_uniform
from attention_research.signatures import Positive


class RelativeKeysAttention(MultiHeadAttention):
    """A relative position table [2k+1 H] for keys, where k is `max_distance`.

    k is at least 1, because a single vector for all keys cancels in the softmax.
    """

    takes_offset = True

    def __init__(self, *, max_distance: Positive = 16, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        shape = (2 * max_distance + 1, self.head_width)
        self.key_table = nnx.Param(glorot_uniform(rngs.params(), shape, jnp.float32))

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """Equation 4 with the table of this layer."""
        table = self.key_table[...].astype(query.dtype)
        visible: dict[str, Any] = {"mask": where.mask, "is_causal": where.is_causal, "query_offset": where.offset}
        return relative_attention(query, key, value, table, **visible), relative_weights(query, key, table, **visible)
