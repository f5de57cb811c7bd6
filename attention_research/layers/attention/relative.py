"""Relative position representations, Shaw, Uszkoreit & Vaswani 2018, equations 3-5.

e_ij = q_i (k_j + a^K_clip(j-i))^T / sqrt(H); z_i = sum_j alpha_ij (v_j + a^V_clip(j-i)). Each layer has one pair of
tables, which its heads share.
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
from attention_research.signatures import NonNegative


class RelativeAttention(MultiHeadAttention):
    """Relative position tables [2k+1 H] for keys and [2k+1 Hv] for values.

    k is `max_distance` (16 in the paper's base model). With k = 0 (the paper's Table 2), all keys get the same vector,
    which cancels in the softmax, so that its gradient is 0.
    """

    def __init__(self, *, max_distance: NonNegative = 16, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        distances = 2 * max_distance + 1
        self.key_table = nnx.Param(glorot_uniform(rngs.params(), (distances, self.head_width), jnp.float32))
        self.value_table = nnx.Param(glorot_uniform(rngs.params(), (distances, self.value_head_width), jnp.float32))

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """Equations 3-5 with the tables of this layer."""
        key_table = self.key_table[...].astype(query.dtype)
        value_table = self.value_table[...].astype(query.dtype)
        visible: dict[str, Any] = {"mask": where.mask, "is_causal": where.is_causal, "query_offset": where.offset}
        context = relative_attention(query, key, value, key_table, value_table, **visible)
        return context, relative_weights(query, key, key_table, **visible)
