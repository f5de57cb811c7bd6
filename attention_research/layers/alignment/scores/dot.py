"""Dot score, Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1: h_t^T h_s, without parameters."""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float

from attention_research.errors import ConfigError
from attention_research.kernels import dot_scores
from attention_research.layers.alignment.scores.score import Score
from attention_research.signatures import Given


class DotScore(Score):
    """The dot product of query and key. Raises ConfigError if their widths differ (use the general score then)."""

    def __init__(self, *, query_width: Given[int], key_width: Given[int], rngs: nnx.Rngs):
        del rngs
        if query_width != key_width:
            what = f"a query of width {query_width} has no dot product with keys of width {key_width}"
            raise ConfigError(f"score.kind: {what}; use general")

    def __call__(self, query: Float[Array, "B T Dq"], prepared: Float[Array, "B S A"]) -> Float[Array, "B T S"]:
        """q^T k."""
        return dot_scores(query, prepared)
