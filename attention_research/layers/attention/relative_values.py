"""Relative position representations on values alone, Shaw, Uszkoreit & Vaswani 2018, equation 3 (their Table 3, a^V).

z_i = sum_j alpha_ij (v_j + a^V_clip(j-i)), where alpha are the weights of plain dot products. The positions affect the
values, but not the attention weights. Each layer has one table, which its heads share.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.kernels import attention_weights, relative_attention
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.layers.linear import glorot_uniform
from attention_research.signatures import NonNegative


class RelativeValuesAttention(MultiHeadAttention):
    """A relative position table [2k+1 Hv] for values, where k is `max_distance`.

    With k = 0, one vector is added to all values.
    """

    def __init__(self, *, max_distance: NonNegative = 16, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        shape = (2 * max_distance + 1, self.value_head_width)
        self.value_table = nnx.Param(glorot_uniform(rngs.params(), shape, jnp.float32))

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """Equation 3 with the table of this layer. The kernel's key table is one row of zeros."""
        nothing = jnp.zeros((1, query.shape[-1]), query.dtype)
        table = self.value_table[...].astype(query.dtype)
        visible: dict[str, Any] = {"mask": where.mask, "is_causal": where.is_causal}
        context = relative_attention(query, key, value, nothing, table, query_offset=where.offset, **visible)
        return context, attention_weights(query, key, **visible)
