"""Location-based attention, Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1: a_t = softmax(W_a h_t)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.kernels import attend
from attention_research.kernels.scores import location_scores
from attention_research.layers.alignment.protocol import AlignmentModule, Arrays
from attention_research.layers.alignment.scores.score import weight
from attention_research.signatures import Given, Positive


class LocationAlignment(AlignmentModule):
    """Scores depend only on the query: row j of W_a scores position j. Positions beyond `max_length` are ignored."""

    def __init__(self, *, max_length: Positive, query_width: Given[int], key_width: Given[int], rngs: nnx.Rngs):
        self.context_width = key_width
        self.weight = weight(rngs, max_length, query_width)

    def start(self, memory: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
        """Keeps the source as it is. The state is empty."""
        return {"values": memory["hidden"], "real": memory["real"]}, {}

    def __call__(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B T S"], Arrays]:
        """The weights are the softmax over the positions of the source."""
        del key
        scores = location_scores(query, self.weight[...].astype(query.dtype), fixed["values"].shape[1])
        context, weights = attend(scores, fixed["values"], fixed["real"])
        return context, weights, state
