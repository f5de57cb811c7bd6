"""Causal linear attention, Katharopoulos et al. 2020 (arXiv 2006.16236), equations 16 to 20: phi(x) = elu(x) + 1."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array

from attention_research.kernels.efficient.linear import scaled_features
from attention_research.layers.attention.state.normalized import NormalizedAttention


class CausalLinearAttention(NormalizedAttention):
    """Linear attention of a decoder, with the standard projections."""

    def __init__(self, *, use_bias: bool = True, **inherited: Any):
        super().__init__(use_bias=use_bias, **inherited)

    def features(self, x: Array) -> tuple[Array, Array]:
        """Equation 7."""
        return scaled_features(x)
