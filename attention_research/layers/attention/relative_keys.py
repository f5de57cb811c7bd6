"""Relative position representations on keys alone, Shaw, Uszkoreit & Vaswani 2018, equation 4 (their Table 3, a^K).

e_ij = q_i (k_j + a^K_clip(j-i))^T / sqrt(H); z_i = sum_j softmax(e)_ij v_j: positions say where to look, and what is
read knows nothing of them. One table a layer, shared by its heads.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import relative_attention, relative_weights
from attention_research.layers.attention.multi_head import MultiHeadAttention
from attention_research.layers.linear import glorot_uniform
from attention_research.registry import Positive


class RelativeKeysAttention(MultiHeadAttention):
    """A table [2k+1 H], k = `max_distance`. At least 1: one row for all keys is nothing to a softmax."""

    def __init__(
        self,
        *,
        width: Positive,
        num_heads: Positive,
        head_width: Positive | None,
        value_head_width: Positive | None = None,
        use_bias: bool = True,
        max_distance: Positive = 16,
        rngs: nnx.Rngs,
    ):
        super().__init__(
            width=width, num_heads=num_heads, head_width=head_width, value_head_width=value_head_width,
            use_bias=use_bias, rngs=rngs,
        )  # fmt: skip
        shape = (2 * max_distance + 1, self.head_width)
        self.key_table = nnx.Param(glorot_uniform(rngs.params(), shape, jnp.float32))

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
        """Equation 4 with the table of this layer."""
        del shared
        table = self.key_table[...].astype(query.dtype)
        where = {"mask": mask, "is_causal": is_causal, "query_offset": offset}
        return relative_attention(query, key, value, table, **where), relative_weights(query, key, table, **where)
