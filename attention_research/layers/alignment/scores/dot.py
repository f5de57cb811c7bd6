"""Dot score, Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1: h_t^T h_s, without parameters."""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import dot_scores
from attention_research.layers.alignment.scores.score import Score
from attention_research.signatures import Given


class DotScore(Score):
    """The dot product of query and key. Raises ValueError if their widths differ (use the general score then)."""

    def __init__(self, *, query_width: Given[int], key_width: Given[int], rngs: nnx.Rngs):
        del rngs
        if query_width != key_width:
            raise ValueError(f"score dot: a query of width {query_width} has no dot product with keys of {key_width}")

    def __call__(self, query: Float[Array, "B T Dq"], prepared: Float[Array, "B S A"]) -> Float[Array, "B T S"]:
        """q^T k."""
        return dot_scores(query, prepared)
