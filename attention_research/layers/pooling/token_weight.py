"""Adaptive token weights: one learned scalar w[x_j] for each token of the vocabulary, independent of the context.

Unlike IDF weights, these weights are learned with the task. They are initialized to 0, which gives the mean.
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
    """Average with weights from w [V]: the softmax of w[x_j] over the text, or sigmoid(w[x_j]) divided by their sum.

    `normalization` is the softmax over the text, or the sigmoid of each weight, divided by their sum.
    """

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
