"""Ratings from a text read whole, with soft attention over its words: what hard rationales are compared with.

Lei, Barzilay & Jaakkola 2016, section 6.1: the same encoder, whose states are averaged with learned weights (Bahdanau
et al. 2015: a_t = softmax_t v tanh(W h_t + b)); its "rationale" is the words of greatest weight. The paper says no more
of its attention model than that. A state has read all words up to its own, so that its weight need not be its word's.
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
    """`read` as `Rationale` has it, where every word is selected and "weights" are those of the attention."""

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
        self.hidden = Linear(width, attention_width, rngs=rngs)
        self.score = Linear(attention_width, 1, use_bias=False, rngs=rngs)
        self.output = Linear(width, num_ratings, rngs=rngs)

    def read(self, source: Int[Array, "B S"], *, key: Key[Array, ""] | None = None) -> dict[str, Any]:
        """ "ratings" [B R], "selected" [B S]: all words, "weights" [B S] of the attention; "log_probability" is 0."""
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
