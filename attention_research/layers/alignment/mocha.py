"""MoChA, Chiu & Raffel 2018 (arXiv 1712.05382): soft attention over a chunk that ends at the monotonic attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.kernels import mocha_weights
from attention_research.layers.alignment.monotonic import MonotonicAlignment
from attention_research.layers.alignment.protocol import Arrays, average
from attention_research.signatures import Child, Given, Positive


class MoChAAlignment(MonotonicAlignment):
    """Soft attention with `score` over the `chunk_size` states that end at the stop of the monotonic attention."""

    def __init__(
        self,
        *,
        chunk_size: Positive = 2,
        score: Child["score"] = "additive",
        query_width: Given[int],
        key_width: Given[int],
        rngs: nnx.Rngs,
        **inherited: Any,
    ):
        super().__init__(query_width=query_width, key_width=key_width, rngs=rngs, **inherited)
        self.chunk_size = chunk_size
        self.score = score(query_width=query_width, key_width=key_width, rngs=rngs)

    def start(self, memory: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
        """As for monotonic attention, with the prepared keys of the chunk's score in addition."""
        fixed, state = super().start(memory)
        return {**fixed, "keys": self.score.prepare(fixed["values"])}, state

    def __call__(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B T S"], Arrays]:
        """The weights are beta in the paper; `state` is the state of the monotonic attention."""
        alignment, state = self.expected(query, fixed, state, key)
        chunked = lambda alpha, u: mocha_weights(alpha, u, chunk_size=self.chunk_size, mask=fixed["real"])
        weights = jax.vmap(chunked, in_axes=1, out_axes=1)(alignment, self.score(query, fixed["keys"]))
        return average(weights, fixed["values"]), weights, state
