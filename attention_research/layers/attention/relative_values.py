"""Relative position representations on values alone, Shaw, Uszkoreit & Vaswani 2018, equation 3 (their Table 3, a^V).

z_i = sum_j alpha_ij (v_j + a^V_clip(j-i)), alpha the weights of dot products that know no positions: what is read says
how far away it was, and where to look is asked of the tokens alone. One table a layer, shared by its heads.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import attention_weights, relative_attention
from attention_research.layers.attention.multi_head import MultiHeadAttention
from attention_research.layers.linear import glorot_uniform
from attention_research.registry import NonNegative, Positive


class RelativeValuesAttention(MultiHeadAttention):
    """A table [2k+1 Hv], k = `max_distance`. With 0 it is a vector added to whatever is attended to."""

    def __init__(
        self,
        *,
        width: Positive,
        num_heads: Positive,
        head_width: Positive | None,
        value_head_width: Positive | None = None,
        use_bias: bool = True,
        max_distance: NonNegative = 16,
        rngs: nnx.Rngs,
    ):
        super().__init__(
            width=width, num_heads=num_heads, head_width=head_width, value_head_width=value_head_width,
            use_bias=use_bias, rngs=rngs,
        )  # fmt: skip
        shape = (2 * max_distance + 1, self.value_head_width)
        self.value_table = nnx.Param(glorot_uniform(rngs.params(), shape, jnp.float32))

    def mix(
        self,
        query: Float[Array, "B T N H"],
        key: Float[Array, "B S N H"],
        value: Float[Array, "B S N Hv"],
        *,
        mask: Any = None,
        is_causal: bool = False,
        offset: Any = 0,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B T N Hv"], Float[Array, "B N T S"]]:
        """Equation 3 with the table of this layer; of the keys the kernel is given one row of zeros."""
        del shared
        nothing = jnp.zeros((1, query.shape[-1]), query.dtype)
        table = self.value_table[...].astype(query.dtype)
        where = {"mask": mask, "is_causal": is_causal}
        context = relative_attention(query, key, value, nothing, table, query_offset=offset, **where)
        return context, attention_weights(query, key, **where)
