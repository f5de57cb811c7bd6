"""Words read one vector of the whole image: a dense layer of the mean of its cells, the same for every word."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.linear import Linear
from attention_research.signatures import Positive


class PooledReader(nnx.Module):
    """Computes W mean(cells) + b. The attention weights are uniform."""

    def __init__(self, *, width: Positive, rngs: nnx.Rngs):
        self.project = Linear(width, width, rngs=rngs)

    def __call__(
        self, words: Float[Array, "B T D"], cells: Float[Array, "B S D"]
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Returns (the same vector for every word, {"attention_weights": [B 1 T S], all 1 / S})."""
        read = self.project(jnp.mean(cells, axis=1, keepdims=True))
        weights = jnp.full((words.shape[0], 1, words.shape[1], cells.shape[1]), 1 / cells.shape[1], jnp.float32)
        return jnp.broadcast_to(read, words.shape), {"attention_weights": weights}
