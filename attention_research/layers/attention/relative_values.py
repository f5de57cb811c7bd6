"""Relative position representations on values alone, Shaw, Uszkoreit & Vaswani 2018, equation 3 (their Table 3, a^V).

z_i = sum_j alpha_ij (v_j + a^V_clip(j-i)), alpha the weights of dot products that know no positions: what is read says
how far away it was, and where to look is asked of the tokens alone. One table a layer, shared by its heads.
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
    """A table [2k+1 Hv], k = `max_distance`. With 0 it is a vector added to whatever is attended to."""

    def __init__(self, *, max_distance: NonNegative = 16, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        shape = (2 * max_distance + 1, self.value_head_width)
        self.value_table = nnx.Param(glorot_uniform(rngs.params(), shape, jnp.float32))

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """Equation 3 with the table of this layer; of the keys the kernel is given one row of zeros."""
        nothing = jnp.zeros((1, query.shape[-1]), query.dtype)
        table = self.value_table[...].astype(query.dtype)
        visible: dict[str, Any] = {"mask": where.mask, "is_causal": where.is_causal}
        context = relative_attention(query, key, value, nothing, table, query_offset=where.offset, **visible)
        return context, attention_weights(query, key, **visible)
