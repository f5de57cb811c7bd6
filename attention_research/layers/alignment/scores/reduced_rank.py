"""Reduced-rank multiplicative score, Britz et al. 2017 (arXiv 1703.03906), section 4.5: <W_1 h_j, W_2 s_i>."""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import dot_scores
from attention_research.kernels.precision import einsum
from attention_research.kernels.scores import scaled_dot_scores
from attention_research.layers.alignment.scores.score import Score, weight
from attention_research.signatures import Given, Positive


class ReducedRankScore(Score):
    """The bilinear score with W = W_2^T W_1 of rank R = `attention_width`: R (Dq + Dk) weights instead of Dq Dk.

    `scaled` divides the scores by sqrt(R). The paper does not scale, and finds that training is poor for large R.
    """

    def __init__(
        self,
        *,
        attention_width: Positive,
        scaled: bool = False,
        query_width: Given[int],
        key_width: Given[int],
        rngs: nnx.Rngs,
    ):
        self.scaled = scaled
        self.query_factor = weight(rngs, attention_width, query_width)
        self.key_factor = weight(rngs, attention_width, key_width)

    def prepare(self, keys: Float[Array, "B S Dk"]) -> Float[Array, "B S A"]:
        """W_1 h_j."""
        return einsum("BSD,RD->BSR", keys, self.key_factor[...].astype(keys.dtype)).astype(keys.dtype)

    def __call__(self, query: Float[Array, "B T Dq"], prepared: Float[Array, "B S A"]) -> Float[Array, "B T S"]:
        """<W_1 h_j, W_2 s_i>."""
        query = einsum("BTD,RD->BTR", query, self.query_factor[...].astype(query.dtype)).astype(query.dtype)
        return scaled_dot_scores(query, prepared) if self.scaled else dot_scores(query, prepared)
