"""Concat score, Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1: v^T tanh(W [h_t; h_s])."""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float

from attention_research.errors import ConfigError
from attention_research.kernels.precision import einsum
from attention_research.kernels.scores.additive import projected_additive_scores
from attention_research.layers.alignment.scores.score import Score, vector, weight
from attention_research.signatures import Given


class ConcatScore(Score):
    """The additive score with one matrix W for the concatenated vectors. The hidden width equals the query width.

    With `source_is_identity`, the block of W that multiplies h_s is the identity, as in the paper's experiments; the
    paper gives this as the reason for its perplexities. It raises ConfigError unless keys and queries are equally wide.
    """

    def __init__(
        self, *, source_is_identity: bool = False, query_width: Given[int], key_width: Given[int], rngs: nnx.Rngs
    ):
        if source_is_identity and query_width != key_width:
            raise ConfigError(f"score.source_is_identity: concat expects keys of width {query_width}, got {key_width}")
        self.query_width, self.source_is_identity = query_width, source_is_identity
        self.weight = weight(rngs, query_width, query_width + (0 if source_is_identity else key_width))
        self.v = vector(rngs, query_width)

    def prepare(self, keys: Float[Array, "B S Dk"]) -> Float[Array, "B S A"]:
        """The part of W [h_t; h_s] that depends on h_s."""
        if self.source_is_identity:
            return keys
        block = self.weight[...][:, self.query_width :]
        return einsum("BSD,AD->BSA", keys, block.astype(keys.dtype)).astype(keys.dtype)

    def __call__(self, query: Float[Array, "B T Dq"], prepared: Float[Array, "B S A"]) -> Float[Array, "B T S"]:
        """v^T tanh(W [h_t; h_s])."""
        block = self.weight[...][:, : self.query_width]
        query = einsum("BTD,AD->BTA", query, block.astype(query.dtype)).astype(query.dtype)
        return projected_additive_scores(query, prepared, self.v[...].astype(query.dtype))
