"""Performer FAVOR+, Choromanski et al. 2021 (arXiv 2009.14794): softmax attention estimated by positive features.

The random directions are drawn with the parameters, one set a layer, and stay: they are statistics, which no optimizer
sees. The paper redraws them now and then; the Long Range Arena's released code draws the same ones at every call.
"""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.kernels import orthogonal_features, performer_attention
from attention_research.layers.attention.sums_of_values import SumOfValues
from attention_research.registry import Positive


class PerformerAttention(SumOfValues):
    """`num_features` directions [M H], orthogonal in blocks of H."""

    def __init__(
        self,
        *,
        width: Positive,
        num_heads: Positive,
        head_width: Positive | None,
        num_features: Positive = 256,
        use_bias: bool = True,
        rngs: nnx.Rngs,
    ):
        super().__init__(width=width, num_heads=num_heads, head_width=head_width, use_bias=use_bias, rngs=rngs)
        self.features = nnx.BatchStat(orthogonal_features(rngs.params(), num_features, self.head_width))

    def attend(
        self,
        query: Float[Array, "B T N H"],
        key: Float[Array, "B T N H"],
        value: Float[Array, "B T N Hv"],
        real: Bool[Array, "B T"] | None,
    ) -> Float[Array, "B T N Hv"]:
        """Section 2.4."""
        return performer_attention(query, key, value, self.features[...], mask=real)
