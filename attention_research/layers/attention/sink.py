"""Learned attention sinks, OpenAI 2025 (arXiv 2508.10925): exp(l_ij) / (exp(sink_n) + sum_j exp(l_ij)), then times V.

The sink is one more logit per head, without a key and with the value 0. gpt-oss initializes it from N(0, 0.02^2). A
sink of 0 is the softmax off by one (Miller 2023).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from attention_research.layers.attention.multi_head import MultiHeadAttention, Where


class SinkAttention(MultiHeadAttention):
    """Scaled dot-product attention with one learned sink per head [N]."""

    def __init__(self, *, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.sink = nnx.Param(0.02 * jax.random.normal(rngs.params(), (self.num_heads,), jnp.float32))

    def options(self, where: Where) -> dict[str, Any]:
        """The sinks."""
        return {**super().options(where), "sink": self.sink[...]}
