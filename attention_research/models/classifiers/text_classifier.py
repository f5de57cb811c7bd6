"""A text classifier with embeddings, a pooling, and a linear layer.

log p(class | text) = log softmax(W d + b), where d pools the token embeddings. The poolings have static weights (mean,
IDF), learned weights (a scalar for each token, a learned query) or attention among the tokens. A recurrent network is
also available.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.layers.dropout import dropout
from attention_research.layers.linear import Linear
from attention_research.signatures import Child, Positive, Rate
from attention_research.tokens import PAD


class TextClassifier(nnx.Module):
    """A model with `log_probabilities` of the "source" of a batch. Dropout is applied to the embeddings."""

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        width: Positive,
        num_classes: Positive = 2,
        dropout_rate: Rate = 0.0,
        dtype: Literal["float32", "bfloat16"] = "float32",
        embedding: Child["embedding"] = "learned",
        pooling: Child["pooling"] = "mean",
        rngs: nnx.Rngs,
    ):
        del vocabulary_size, dtype  # inherited by the embedding
        self.dropout_rate = dropout_rate
        self.embedding = embedding(rngs=rngs)
        self.pooling = pooling(input_width=width, rngs=rngs)
        self.head = Linear(self.pooling.output_width, num_classes, rngs=rngs)

    def log_probabilities(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B C"], dict[str, Any]]:
        """(log p of each class in float32, {"pooling": aux of the pooling}). Without a key, dropout is off."""
        tokens = batch["source"]
        x = dropout(self.embedding(tokens), self.dropout_rate, key)
        vector, aux = self.pooling(x, batch, tokens != PAD)
        return jax.nn.log_softmax(self.head(vector).astype(jnp.float32)), {"pooling": aux}
