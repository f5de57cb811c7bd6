"""Dot-product attention without its scale, softmax(Q K^T) V: what Vaswani et al. 2017, section 3.2.1, argue against."""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import attention_weights, dot_product_attention
from attention_research.layers.attention.multi_head import MultiHeadAttention


class UnscaledAttention(MultiHeadAttention):
    """Standard attention with scale 1 in place of 1/sqrt(H)."""

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
        """softmax(Q K^T) V."""
        del offset, shared
        where = {"mask": mask, "is_causal": is_causal, "scale": 1.0}
        return dot_product_attention(query, key, value, **where), attention_weights(query, key, **where)
