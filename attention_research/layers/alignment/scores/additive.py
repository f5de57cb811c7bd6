"""Additive score, Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), appendix A.1.2: v^T tanh(W s_{i-1} + U h_j)."""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.precision import einsum
from attention_research.kernels.scores.additive import projected_additive_scores
from attention_research.layers.alignment.scores.score import Score, vector, weight
from attention_research.signatures import Given, Positive


class AdditiveScore(Score):
    """A network with one hidden layer of `attention_width` units (None: the query width), without biases.

    U h_j is computed once per sentence.
    """

    def __init__(
        self,
        *,
        attention_width: Positive | None = None,
        query_width: Given[int],
        key_width: Given[int],
        rngs: nnx.Rngs,
    ):
        attention_width = query_width if attention_width is None else attention_width
        self.query_weight = weight(rngs, attention_width, query_width)
        self.key_weight = weight(rngs, attention_width, key_width)
        self.v = vector(rngs, attention_width)

    def prepare(self, keys: Float[Array, "B S Dk"]) -> Float[Array, "B S A"]:
        """U h_j."""
        return einsum("BSD,AD->BSA", keys, self.key_weight[...].astype(keys.dtype)).astype(keys.dtype)

    def __call__(self, query: Float[Array, "B T Dq"], prepared: Float[Array, "B S A"]) -> Float[Array, "B T S"]:
        """v^T tanh(W s_i + U h_j)."""
        query = einsum("BTD,AD->BTA", query, self.query_weight[...].astype(query.dtype)).astype(query.dtype)
        return projected_additive_scores(query, prepared, self.v[...].astype(query.dtype))
