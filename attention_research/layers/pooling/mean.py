"""The mean of the embeddings (the averaging baseline of Iyyer et al. 2015)."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.layers.pooling.average import average, normalized
from attention_research.signatures import Given


class MeanPooling(nnx.Module):
    """Average with equal weights a_j = 1 / (number of non-padding tokens)."""

    def __init__(self, *, input_width: Given[int], rngs: nnx.Rngs):
        del rngs
        self.output_width = input_width

    def __call__(
        self, x: Float[Array, "B S D"], batch: Mapping[str, Array], real: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B P"], dict[str, Float[Array, "B S"]]]:
        del batch
        weights = normalized(jnp.ones(real.shape, jnp.float32), real)
        return average(x, weights), {"weights": weights}
