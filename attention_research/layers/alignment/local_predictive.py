"""Local-p attention, Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.2: a window around a predicted p_t."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.kernels import local_weights
from attention_research.kernels.selection import predicted_centers
from attention_research.layers.alignment.protocol import AlignmentModule, Arrays, average, lengths, prepared
from attention_research.layers.alignment.scores.score import vector, weight
from attention_research.signatures import Child, Given, Positive


class LocalPredictiveAlignment(AlignmentModule):
    """Attention to a window around a predicted position p_t = S sigmoid(v^T tanh(W h_t)).

    The weights are the softmax over the window times exp(-(s - p_t)^2 / (2 sigma^2)), where sigma = D / 2 and D is
    `half_width`.
    """

    def __init__(
        self,
        *,
        score: Child["score"] = "general",
        half_width: Positive = 10,
        query_width: Given[int],
        key_width: Given[int],
        rngs: nnx.Rngs,
    ):
        self.context_width, self.half_width = key_width, half_width
        self.score = score(query_width=query_width, key_width=key_width, rngs=rngs)
        self.position_weight = weight(rngs, query_width, query_width)
        self.v = vector(rngs, query_width)

    def start(self, memory: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
        """Prepares the keys once. The state is empty."""
        return {**prepared(self.score, memory), "lengths": lengths(memory["real"])}, {}

    def __call__(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B T S"], Arrays]:
        """The weights sum to less than 1. The gradient reaches p_t through the Gaussian."""
        del key
        parts = (self.position_weight[...].astype(query.dtype), self.v[...].astype(query.dtype))
        centers = predicted_centers(query, *parts, fixed["lengths"])
        scores, mask = self.score(query, fixed["keys"]), fixed["real"][:, None]
        weights = local_weights(scores, centers, half_width=self.half_width, gaussian=True, mask=mask)
        return average(weights, fixed["values"]), weights, state
