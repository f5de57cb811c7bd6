"""Adaptive token weights: one learned scalar for each item of the vocabulary, a_j from w[x_j]; no context.

What IDF fixes in advance is here learned from the task. All weights start at 0, which is the mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import softmax_or_zero
from attention_research.layers.pooling.average import average, normalized
from attention_research.signatures import Given, Positive


class TokenWeightPooling(nnx.Module):
    """a = softmax over the text of w[x_j], or sigmoid(w[x_j]) divided by the text's sum of them; w [V]."""

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        normalization: Literal["softmax", "sigmoid"] = "softmax",
        input_width: Given[int],
        rngs: nnx.Rngs,
    ):
        del rngs
        self.output_width, self.normalization = input_width, normalization
        self.weight = nnx.Param(jnp.zeros((vocabulary_size,), jnp.float32))

    def __call__(
        self, x: Float[Array, "B S D"], batch: Mapping[str, Array], real: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B P"], dict[str, Float[Array, "B S"]]]:
        scores = self.weight[...][batch["source"]]
        if self.normalization == "softmax":
            weights = softmax_or_zero(scores, real)
        else:
            weights = normalized(jax.nn.sigmoid(scores), real)
        return average(x, weights), {"weights": weights}
