"""Performer FAVOR+, Choromanski et al. 2021 (arXiv 2009.14794): softmax attention estimated by positive features.

Each layer draws its random directions at initialization and keeps them as a constant statistic, which no optimizer
updates. The paper redraws them from time to time; the released code of the Long Range Arena draws the same directions
at every call.
"""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array

from attention_research.kernels import performer_attention
from attention_research.kernels.efficient import orthogonal_features
from attention_research.layers.attention.sums_of_values import SumOfValues
from attention_research.signatures import Positive


class PerformerAttention(SumOfValues):
    """Performer attention with `num_features` random directions [M H], orthogonal within blocks of H."""

    def __init__(self, *, num_features: Positive = 256, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(value_head_width=None, rngs=rngs, **inherited)
        self.features = nnx.BatchStat(orthogonal_features(rngs.params(), num_features, self.head_width))

    def attend(self, query: Array, key: Array, value: Array, real: Array | None) -> Array:
        """The estimate of section 2.4."""
        return performer_attention(query, key, value, self.features[...], mask=real)
