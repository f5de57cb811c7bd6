"""Ratings with soft attention over all words of a text, the baseline for rationales.

Lei, Barzilay & Jaakkola 2016, section 6.1: the encoder is the same, and its states are averaged with learned weights
(Bahdanau et al. 2015: a_t = softmax_t v tanh(W h_t + b)). The "rationale" consists of the words with the largest
weights. The paper does not describe its attention model further. A state depends on all words up to its position, so
its weight does not belong to one word alone.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Int, Key

from attention_research.kernels import attend
from attention_research.layers.dropout import dropout
from attention_research.layers.linear import Linear
from attention_research.models.rationales.reader import SkippingReader
from attention_research.signatures import Child, Positive, Rate
from attention_research.tokens import PAD


class SoftAttentionRatings(nnx.Module):
    """A model with the method `read` of `Rationale`. Every word is selected; "weights" are the attention weights.

    `attention_width` is the width of the layer W, and `num_ratings` the number of predicted ratings.
    """

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        width: Positive,
        embedding_width: Positive,
        attention_width: Positive,
        num_layers: Positive = 2,
        num_ratings: Positive = 1,
        dropout_rate: Rate = 0.1,
        cell: Child["recurrent_cell"] = "rcnn",
        rngs: nnx.Rngs,
    ):
        self.dropout_rate = dropout_rate
        table = jax.random.normal(rngs.params(), (vocabulary_size, embedding_width), jnp.float32)
        self.embedding = nnx.Param(table * embedding_width**-0.5)
        self.encoder = SkippingReader(cell, num_layers, embedding_width, rngs=rngs)
        width = self.encoder.cells[-1].width  # by default the model's, which the cells inherit
        self.hidden = Linear(width, attention_width, rngs=rngs)
        self.score = Linear(attention_width, 1, use_bias=False, rngs=rngs)
        self.output = Linear(width, num_ratings, rngs=rngs)

    def read(self, source: Int[Array, "B S"], *, key: Key[Array, ""] | None = None) -> dict[str, Any]:
        """{"ratings" [B R], "selected" [B S] (all words), "weights" [B S] of the attention, "log_probability" (0)}."""
        keys = (None,) * 2 if key is None else tuple(jax.random.split(key))
        real = source != PAD
        states, _ = self.encoder(dropout(self.embedding[...][source], self.dropout_rate, keys[0]), real)
        scores = self.score(jnp.tanh(self.hidden(states)))[..., 0]
        context, weights = attend(scores[:, None], states, real)
        ratings = jax.nn.sigmoid(self.output(dropout(context[:, 0], self.dropout_rate, keys[1])))
        return {
            "ratings": ratings,
            "selected": real,
            "log_probability": jnp.zeros(real.shape, ratings.dtype),
            "weights": weights[:, 0],
        }
