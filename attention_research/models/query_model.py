"""A model that answers queries in a text, each at its position (Arora et al. 2023, arXiv 2312.04927, appendix E).

    p(answer_i | x_1 .. x_p) = softmax(h_p W + b), p = places_i

h is the output of a causal network over the embeddings. The logits are computed at the places of the queries alone: the
loss is that of all positions with labels, and the product with the matrix of the vocabulary, which would take most of
the time, has as many rows as there are queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.models.predictions import predicted
from attention_research.signatures import Child, Positive, Rate
from attention_research.tokens import PAD


class QueryModel(nnx.Module):
    """A model with `log_likelihood` of the "target" [B Q] of a batch, given "source" [B T], at "places" [B Q].

    `network` reads the embeddings of the source.
    """

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        max_length: Positive,
        width: Positive,
        dropout_rate: Rate = 0.1,
        dtype: Literal["float32", "bfloat16"] = "float32",
        vocabulary: Child["vocabulary"] = "shared",
        network: Child["series_network"] = "transformer",
        initialization: Child["initialization"] = "as_built",
        rngs: nnx.Rngs,
    ):
        del vocabulary_size, max_length, dropout_rate, dtype  # inherited by the children
        self.vocabulary = vocabulary(rngs=rngs)
        self.network = network(input_width=width, rngs=rngs)
        initialization()(self, rngs)

    def log_likelihood(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[dict[str, Float[Array, "B Q"]], dict[str, Any]]:
        """({"log_likelihood", "smooth_log_likelihood", "predicted", "mask"} for each query, {"network": its aux})."""
        hidden, aux = self.network(self.vocabulary.source(batch["source"]), key=key)
        at_queries = jnp.take_along_axis(hidden, batch["places"][:, :, None], axis=1)
        values = self.vocabulary.log_likelihood(at_queries, batch["target"])
        found = predicted(self.vocabulary, at_queries)
        return {**values, "predicted": found, "mask": batch["target"] != PAD}, {"network": aux}
