"""The encoder's last state is the context of every step: Cho et al. 2014; "RNNencdec" of Bahdanau et al. 2015."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.layers.alignment.protocol import AlignmentModule, Arrays
from attention_research.signatures import Given


class LastStateAlignment(AlignmentModule):
    """The context is the same fixed vector at all steps. The attention weights are 0."""

    def __init__(self, *, query_width: Given[int], key_width: Given[int], rngs: nnx.Rngs):
        del query_width, rngs
        self.context_width = key_width

    def start(self, memory: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
        """Takes the last state of each source."""
        return {"last": memory["last"], "real": memory["real"]}, {}

    def __call__(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B T S"], Arrays]:
        """Repeats the last state for all T steps."""
        del key
        batch, count = query.shape[:2]
        context = jnp.broadcast_to(fixed["last"][:, None], (batch, count, self.context_width))
        return context, jnp.zeros((batch, count, fixed["real"].shape[1]), jnp.float32), state
