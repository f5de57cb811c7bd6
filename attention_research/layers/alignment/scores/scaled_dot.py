"""Scaled dot score, Vaswani et al. 2017, equation 1: q^T k / sqrt(D), without parameters."""

from __future__ import annotations

from jaxtyping import Array, Float

from attention_research.kernels.scores import scaled_dot_scores
from attention_research.layers.alignment.scores.dot import DotScore


class ScaledDotScore(DotScore):
    """The scaled dot product of query and key. Raises ValueError if their widths differ."""

    def __call__(self, query: Float[Array, "B T Dq"], prepared: Float[Array, "B S A"]) -> Float[Array, "B T S"]:
        """q^T k / sqrt(D)."""
        return scaled_dot_scores(query, prepared)
