"""General (bilinear, multiplicative) score, Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1: h_t^T W h_s."""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import dot_scores
from attention_research.kernels.precision import einsum
from attention_research.layers.alignment.scores.score import Score, weight
from attention_research.signatures import Given


class GeneralScore(Score):
    """W h_s is computed once per sentence, so that a step costs one dot product of the query's width."""

    def __init__(self, *, query_width: Given[int], key_width: Given[int], rngs: nnx.Rngs):
        self.weight = weight(rngs, query_width, key_width)

    def prepare(self, keys: Float[Array, "B S Dk"]) -> Float[Array, "B S A"]:
        """W h_s."""
        return einsum("BSK,QK->BSQ", keys, self.weight[...].astype(keys.dtype)).astype(keys.dtype)

    def __call__(self, query: Float[Array, "B T Dq"], prepared: Float[Array, "B S A"]) -> Float[Array, "B T S"]:
        """q^T W k."""
        return dot_scores(query, prepared)
