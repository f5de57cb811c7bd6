"""Attention with one learned query for all texts: a = softmax_j v^T tanh(W e_j) (Yang et al. 2016, equations 5 to 7).

The query v is a parameter. The score of a token depends only on its embedding.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import softmax_or_zero
from attention_research.kernels.precision import einsum
from attention_research.layers.linear import Linear
from attention_research.layers.pooling.average import average
from attention_research.signatures import Given, Positive


class QueryPooling(nnx.Module):
    """Average with weights from a learned query v [A], initialized from N(0, 1/A), and W [D A] with a bias.

    A is `attention_width`, by default D.
    """

    def __init__(self, *, attention_width: Positive | None = None, input_width: Given[int], rngs: nnx.Rngs):
        width = attention_width or input_width
        self.output_width = input_width
        self.hidden = Linear(input_width, width, rngs=rngs)
        self.query = nnx.Param(jax.random.normal(rngs.params(), (width,), jnp.float32) * width**-0.5)

    def scores(self, x: Float[Array, "*B D"]) -> Float[Array, "*B"]:
        """v^T tanh(W e + b) of each embedding, in float32."""
        hidden = jnp.tanh(self.hidden(x))
        return einsum("...A,A->...", hidden, self.query[...].astype(hidden.dtype))

    def __call__(
        self, x: Float[Array, "B S D"], batch: Mapping[str, Array], real: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B P"], dict[str, Float[Array, "B S"]]]:
        del batch
        weights = softmax_or_zero(self.scores(x), real)
        return average(x, weights), {"weights": weights}
