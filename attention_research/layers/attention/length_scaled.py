"""Scalable-Softmax attention (SSMax), Nakanishi 2025 (arXiv 2501.19399): softmax(s_n log(n_i) Q K^T / sqrt(H)) V.

n_i is the number of keys that query i may attend to (`kernels.length_scaled_attention`). s_n is one learned number per
head. It starts at T / (log 1 + ... + log T), so that s_n log(n_i) is 1 on average over a causal row of `max_length` T.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.kernels.variants import length_scaled_query
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.signatures import Positive


class LengthScaledAttention(MultiHeadAttention):
    """Dot-product attention whose scores grow with the number of visible keys."""

    def __init__(self, *, max_length: Positive, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        start = max_length / max(math.lgamma(max_length + 1), 1.0)
        self.length_scale = nnx.Param(jnp.full((self.num_heads,), start, jnp.float32))

    def prepare(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array, Array]:
        """Multiplies each query by s_n log(n_i)."""
        query, key, value = super().prepare(query, key, value, where)
        query = length_scaled_query(
            query, self.length_scale[...], key.shape[1], where.mask, is_causal=where.is_causal,
            query_offset=where.offset,
        )  # fmt: skip
        return query, key, value
