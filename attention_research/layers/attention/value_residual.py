"""Value residual learning, Zhou et al. 2024 (arXiv 2410.17897), section 3: V_l' = lambda_l V_l + (1 - lambda_l) V_1.

V_1 are the values of the first layer. lambda_l is one learned number per layer, initialized to 1/2; the released code
has a constant 1/2. The first layer is scaled dot-product attention. Every layer caches its own values V_l; a decoding
step mixes them with the cached values of the first layer.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.signatures import Constructor


class ValueResidualAttention(MultiHeadAttention):
    """The first layer, which hands over its values. A stack needs a second layer, which reads them."""

    fewest_layers = 2

    @classmethod
    def by_layer(cls, attention: Constructor, num_layers: int) -> list[tuple[Constructor, int]]:
        """The first layer, and the layers above it."""
        return [(attention, 1), (attention.of(MixedValuesAttention, attention.settings), num_layers - 1)]

    def hand_over(self, key: Array, value: Array) -> dict[str, Array]:
        """V_1."""
        return {"value": value}


class MixedValuesAttention(MultiHeadAttention):
    """A layer above the first, with its own lambda [1]."""

    takes_handed = True

    def __init__(self, *, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.share_scale = nnx.Param(jnp.full((1,), 0.5, jnp.float32))

    def prepare(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array, Array]:
        """Mixes the values with those of the first layer."""
        share = self.share_scale[...].astype(value.dtype)
        return super().prepare(query, key, share * value + (1 - share) * where.handed["value"], where)
