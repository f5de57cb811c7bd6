"""No attention: the decoder sees the source only through its initial state (Sutskever et al. 2014)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.layers.alignment.protocol import AlignmentModule, Arrays
from attention_research.signatures import Given


class NoAlignment(AlignmentModule):
    """Returns a context of width 0 and weights of 0."""

    def __init__(self, *, query_width: Given[int], key_width: Given[int], rngs: nnx.Rngs):
        del query_width, key_width, rngs
        self.context_width = 0

    def start(self, memory: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
        """Keeps only the source mask, which gives the shape of the weights."""
        return {"real": memory["real"]}, {}

    def __call__(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B T S"], Arrays]:
        """An empty context and zero weights."""
        del key
        batch, count = query.shape[:2]
        weights = jnp.zeros((batch, count, fixed["real"].shape[1]), jnp.float32)
        return jnp.zeros((batch, count, 0), query.dtype), weights, state
