"""Causal Performer FAVOR+, Choromanski et al. 2021 (arXiv 2009.14794), section 2.5: positive random features.

Each layer draws its random directions at initialization and keeps them as a constant statistic.
"""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array

from attention_research.kernels.efficient import orthogonal_features, positive_features
from attention_research.kernels.precision import accumulator
from attention_research.layers.attention.state.normalized import NormalizedAttention
from attention_research.signatures import Positive


class CausalPerformer(NormalizedAttention):
    """The Performer of a decoder, with `num_features` random directions [M H], orthogonal within blocks of H."""

    cost = ("N*num_features*(Hv + 1) + N + max(convolution_width - 1, 0)*N*(2*H + Hv)", 1)

    def __init__(self, *, num_features: Positive = 256, use_bias: bool = True, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(use_bias=use_bias, rngs=rngs, **inherited)
        self.directions = nnx.BatchStat(orthogonal_features(rngs.params(), num_features, self.head_width))

    @property
    def num_channels(self) -> int:
        """The number of random directions."""
        return self.directions.shape[0]

    def features(self, x: Array) -> tuple[Array, Array]:
        """Lemma 1. Queries and keys are multiplied by H^(-1/4)."""
        return positive_features(x.astype(accumulator(x.dtype)) * self.head_width**-0.25, self.directions[...])
