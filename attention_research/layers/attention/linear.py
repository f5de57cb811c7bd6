"""Linear attention, Katharopoulos et al. 2020 (arXiv 2006.16236): phi(Q) (phi(K)^T V), phi(x) = elu(x) + 1."""

from __future__ import annotations

from jaxtyping import Array

from attention_research.kernels import linear_attention
from attention_research.layers.attention.sums_of_values import SumOfValues


class LinearAttention(SumOfValues):
    """Linear attention with the standard projections. Time and memory are linear in the length."""

    def attend(self, query: Array, key: Array, value: Array, real: Array | None) -> Array:
        """Equation 5."""
        return linear_attention(query, key, value, mask=real)
