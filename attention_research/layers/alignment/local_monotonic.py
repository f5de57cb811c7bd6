"""Local-m attention, Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.2: a window around p_t = t."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.kernels import local_weights
from attention_research.layers.alignment.protocol import AlignmentModule, Arrays, average, prepared, steps
from attention_research.signatures import Child, Given, Positive


class LocalMonotonicAlignment(AlignmentModule):
    """Softmax over the source positions within `half_width` (D in the paper, 10) of the index of the target step.

    The index counts from 0. If a target is longer than its source, the window moves past the end of the source, and the
    context is then 0.
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

    def start(self, memory: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
        """Prepares the keys. The state is the index of the step."""
        return prepared(self.score, memory), {"index": jnp.zeros((), jnp.int32)}

    def __call__(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B T S"], Arrays]:
        """The weights are the softmax over the window, without a Gaussian."""
        del key
        batch, count = query.shape[:2]
        scores = self.score(query, fixed["keys"])
        centers = jnp.broadcast_to(steps(state["index"], count).astype(scores.dtype), (batch, count))
        mask = fixed["real"][:, None]
        weights = local_weights(scores, centers, half_width=self.half_width, gaussian=False, mask=mask)
        context = average(weights, fixed["values"])
        return context, weights, {"index": state["index"] + count}
