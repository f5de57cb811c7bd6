"""Ratings with rationales, Lei, Barzilay & Jaakkola 2016 (arXiv 1606.04155), section 4.

A generator selects words z of a text x. An encoder reads only these words and predicts ratings in [0, 1] from the last
states of its layers: enc(z, x) = sigmoid(h W + b). Both use the same embeddings, which are learned here. In the paper,
they are trained before on 3.5 million reviews and then fixed.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Int, Key

from attention_research.layers.dropout import dropout
from attention_research.layers.linear import Linear
from attention_research.models.rationales.reader import SkippingReader
from attention_research.models.rationales.selection import log_probability
from attention_research.signatures import Child, Positive, Rate
from attention_research.tokens import PAD


class Rationale(nnx.Module):
    """A model whose `read` returns ratings and the selected words. The encoder has `num_layers` cells (2 in the paper).

    Dropout is applied to the embeddings, separately for generator and encoder, and to the last states.

    `generator` selects the words, and `num_ratings` is R, the number of predicted ratings.
    """

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        width: Positive,
        embedding_width: Positive,
        num_layers: Positive = 2,
        num_ratings: Positive = 1,
        dropout_rate: Rate = 0.1,
        cell: Child["recurrent_cell"] = "rcnn",
        generator: Child["rationale_generator"] = "independent",
        rngs: nnx.Rngs,
    ):
        del width  # inherited by the cells
        self.dropout_rate = dropout_rate
        table = jax.random.normal(rngs.params(), (vocabulary_size, embedding_width), jnp.float32)
        self.embedding = nnx.Param(table * embedding_width**-0.5)
        self.generator = generator(input_width=embedding_width, rngs=rngs)
        self.encoder = SkippingReader(cell, num_layers, embedding_width, rngs=rngs)
        self.output = Linear(self.encoder.width, num_ratings, rngs=rngs)

    def read(
        self,
        source: Int[Array, "B S"],
        *,
        key: Key[Array, ""] | None = None,
        selected: Bool[Array, "B S"] | None = None,
    ) -> dict[str, Any]:
        """{"ratings" [B R], "selected" [B S], "log_probability" [B S] of each choice, "weights" [B S] = p(z_t = 1)}.

        With a key, the words are sampled and dropout is active. Without a key, the more likely choice is taken, and
        "log_probability" has no gradient because nothing is sampled. `selected` replaces the choice of the generator.
        """
        keys = (None,) * 4 if key is None else tuple(jax.random.split(key, 4))
        real = source != PAD
        x = self.embedding[...][source]
        dropped = dropout(x, self.dropout_rate, keys[0])
        scores, chosen = self.generator(dropped, real, key=keys[1], selected=selected)
        _, last = self.encoder(dropout(x, self.dropout_rate, keys[2]), chosen)
        ratings = jax.nn.sigmoid(self.output(dropout(last, self.dropout_rate, keys[3])))
        log_p = jnp.where(real, log_probability(scores, chosen), jnp.zeros((), scores.dtype))
        return {
            "ratings": ratings,
            "selected": chosen,
            "log_probability": jax.lax.stop_gradient(log_p) if key is None and selected is None else log_p,
            "weights": jnp.where(real, jax.nn.sigmoid(scores), jnp.zeros((), scores.dtype)),
        }
