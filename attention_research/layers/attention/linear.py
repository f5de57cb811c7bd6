"""Linear attention, Katharopoulos et al. 2020 (arXiv 2006.16236): phi(Q) (phi(K)^T V), phi(x) = elu(x) + 1."""

from __future__ import annotations

from jaxtyping import Array, Bool, Float

from attention_research.kernels import linear_attention
from attention_research.layers.attention.sums_of_values import SumOfValues


class LinearAttention(SumOfValues):
    """The standard projections; time and memory linear in the length."""

    def attend(
        self,
        query: Float[Array, "B T N H"],
        key: Float[Array, "B T N H"],
        value: Float[Array, "B T N Hv"],
        real: Bool[Array, "B T"] | None,
    ) -> Float[Array, "B T N Hv"]:
        """Equation 5."""
        return linear_attention(query, key, value, mask=real)
