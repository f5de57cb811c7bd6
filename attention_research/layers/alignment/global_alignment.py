"""Global attention: the softmax of a score. Bahdanau et al. 2015, equations 5 and 6; Luong et al. 2015, section 3.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.kernels import attend
from attention_research.layers.alignment.protocol import AlignmentModule, Arrays, prepared
from attention_research.signatures import Child, Given


class GlobalAlignment(AlignmentModule):
    """Attends to all non-padding source positions with the softmax of their `score`."""

    def __init__(
        self, *, score: Child["score"] = "additive", query_width: Given[int], key_width: Given[int], rngs: nnx.Rngs
    ):
        self.context_width = key_width
        self.score = score(query_width=query_width, key_width=key_width, rngs=rngs)

    def start(self, memory: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
        """Prepares the keys once. The state is empty."""
        return prepared(self.score, memory), {}

    def __call__(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B T S"], Arrays]:
        """The weights are softmax(scores); the context is the weighted average of the source states."""
        del key
        context, weights = attend(self.score(query, fixed["keys"]), fixed["values"], fixed["real"])
        return context, weights, state
