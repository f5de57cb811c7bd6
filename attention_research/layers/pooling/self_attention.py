"""Basic self-attention without parameters, softmax(X X^T) X, then the mean over positions.

The scores are symmetric. By the Cauchy-Schwarz inequality, among embeddings of equal norm a token has the highest score
with itself, so that tokens attend most to tokens with similar embeddings.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.kernels.scores.attend import attend
from attention_research.kernels.scores.dot import dot_scores
from attention_research.layers.pooling.average import average, normalized
from attention_research.signatures import Given


class SelfAttentionPooling(nnx.Module):
    """The mean over i of y_i = sum_j softmax_j(x_i^T x_j) x_j. The scores are not scaled."""

    def __init__(self, *, input_width: Given[int], rngs: nnx.Rngs):
        del rngs
        self.output_width = input_width

    def __call__(
        self, x: Float[Array, "B S D"], batch: Mapping[str, Array], real: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B P"], dict[str, Float[Array, "B S"]]]:
        del batch
        return mean_of_contexts(dot_scores(x, x), x, real)


def mean_of_contexts(
    scores: Float[Array, "B S S"], values: Float[Array, "B S D"], real: Bool[Array, "B S"]
) -> tuple[Float[Array, "B D"], dict[str, Float[Array, "B S"]]]:
    """The mean of the contexts of non-padding queries. The weight of a position is the mean attention that it gets."""
    contexts, attention = attend(scores, values, real)
    share = normalized(jnp.ones(real.shape, jnp.float32), real)
    return average(contexts, share), {"weights": jnp.sum(share[:, :, None] * attention, axis=1)}
