"""Cosine score: q^T k / (|q| |k|), the dot product of the normalized vectors, without parameters."""

from __future__ import annotations

from jaxtyping import Array, Float

from attention_research.kernels.scores import cosine_scores
from attention_research.layers.alignment.scores.dot import DotScore


class CosineScore(DotScore):
    """The cosine similarity of query and key, between -1 and 1. Raises ValueError if their widths differ."""

    def __call__(self, query: Float[Array, "B T Dq"], prepared: Float[Array, "B S A"]) -> Float[Array, "B T S"]:
        """The cosine of the angle between q and k."""
        return cosine_scores(query, prepared)
