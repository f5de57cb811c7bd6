"""Basic self-attention without parameters, softmax(X X^T) X, then the mean over positions.

The scores are symmetric, and by Cauchy and Schwarz no embedding of the same length scores higher with a token than the
token itself: a token attends to what is like it, never first to what is unlike it.
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
    """y_i = sum_j softmax_j(x_i^T x_j) x_j, d = mean_i y_i; the scores are not scaled."""

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
    """The mean over non-padding queries of what each attends to; a position weighs the mean of the attention on it."""
    contexts, attention = attend(scores, values, real)
    share = normalized(jnp.ones(real.shape, jnp.float32), real)
    return average(contexts, share), {"weights": jnp.sum(share[:, :, None] * attention, axis=1)}
