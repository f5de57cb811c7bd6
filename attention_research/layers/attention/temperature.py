"""Locality self-attention, Lee, Lee & Song 2021 (arXiv 2112.13492), section 3.2: softmax(Q K^T / tau_n) V.

Each head learns its temperature tau, which is initialized to sqrt(H) (the released code learns 1 / tau). In the paper,
a position does not attend to itself.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.errors import ConfigError
from attention_research.kernels.variants.temperature import divided
from attention_research.layers.attention.multi_head import Mask, MultiHeadAttention, Where


class TemperatureAttention(MultiHeadAttention):
    """Attention with one learned temperature per head [N].

    `masks_diagonal` hides each position from itself, in encoders only: the first position of a decoder would see none.
    """

    scale = 1.0

    def __init__(self, *, masks_diagonal: bool = False, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.masks_diagonal = masks_diagonal
        self.temperature_scale = nnx.Param(jnp.full((self.num_heads,), self.head_width**0.5, jnp.float32))

    def prepare(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array, Array]:
        """Divides the queries by the temperature."""
        query, key, value = super().prepare(query, key, value, where)
        return divided(query, self.temperature_scale[...]), key, value

    def visible(self, query: Array, key: Array, where: Where) -> Mask | None:
        """All keys, or all but the query's own. Raises ConfigError if that is asked for in a decoder."""
        if not self.masks_diagonal:
            return super().visible(query, key, where)
        if where.is_causal or not isinstance(where.offset, int):
            raise ConfigError("self_attention.masks_diagonal: a decoder's first position would see no key")
        return ~jnp.eye(query.shape[1], key.shape[1], dtype=bool)[None, None]
