"""Self-attention with learned queries, keys and values, one head (Vaswani et al. 2017, equation 1), then the mean.

Queries and keys are different projections of the tokens. Scores therefore need not be symmetric, and a token can attend
most to a token with a dissimilar embedding.
"""

from __future__ import annotations

from collections.abc import Mapping

from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.kernels.scores.scaled_dot import scaled_dot_scores
from attention_research.layers.linear import Linear
from attention_research.layers.pooling.self_attention import mean_of_contexts
from attention_research.signatures import Given


class QKVPooling(nnx.Module):
    """The mean over positions of softmax(Q K^T / sqrt(D)) V, with kernels [D D] without biases."""

    def __init__(self, *, input_width: Given[int], rngs: nnx.Rngs):
        self.output_width = input_width
        self.query = Linear(input_width, input_width, use_bias=False, rngs=rngs)
        self.key = Linear(input_width, input_width, use_bias=False, rngs=rngs)
        self.value = Linear(input_width, input_width, use_bias=False, rngs=rngs)

    def __call__(
        self, x: Float[Array, "B S D"], batch: Mapping[str, Array], real: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B P"], dict[str, Float[Array, "B S"]]]:
        del batch
        return mean_of_contexts(scaled_dot_scores(self.query(x), self.key(x)), self.value(x), real)
