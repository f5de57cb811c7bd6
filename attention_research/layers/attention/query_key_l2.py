"""Query-key normalization, Henry et al. 2020 (arXiv 2010.04245): softmax(g_n (q / |q|) (k / |k|)^T) V.

The logits are cosines times a learned gain. The paper initializes one gain to log2(L^2 - L), where L is the 97.5th
percentile of the lengths. Here each head has its own gain.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.errors import ConfigError
from attention_research.kernels.variants.query_key_l2 import unit_length
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.signatures import Positive


class QueryKeyL2Attention(MultiHeadAttention):
    """Attention by cosines. `typical_length` is L, at least 2: it sets the initial gain of every head."""

    scale = 1.0

    def __init__(self, *, typical_length: Positive, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        if typical_length < 2:
            raise ConfigError(f"typical_length: expected at least 2, got {typical_length}")
        gain = math.log2(typical_length**2 - typical_length)
        self.gain_scale = nnx.Param(jnp.full((self.num_heads,), gain, jnp.float32))

    def prepare(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array, Array]:
        """Unit queries times the gain, and unit keys."""
        query, key, value = super().prepare(query, key, value, where)
        cosine = unit_length(query)
        gained = cosine * self.gain_scale[...][:, None].astype(cosine.dtype)
        return gained.astype(query.dtype), unit_length(key).astype(key.dtype), value
