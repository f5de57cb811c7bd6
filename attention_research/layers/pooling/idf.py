"""Static attention: the weight of a term is its inverse document frequency, log(N / df) (Sparck Jones 1972).

The weights are computed from the training texts and depend neither on the task nor on the context. The batch holds
"document_frequency" [B S] and "documents" [B] (`data.labelled`). A term that occurs in all texts has weight 0. A term
that occurs in no training text counts as a term of one text.

Over the *distinct* terms of a text this is TF-IDF: a term that occurs tf times contributes tf log(N / df) times its
embedding.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention_research.layers.pooling.average import average, normalized
from attention_research.signatures import Given


def inverse_document_frequency(
    document_frequency: Int[Array, "B S"], documents: Int[Array, "B"]
) -> Float[Array, "B S"]:
    """log(N / df), in float32. df is taken as at least 1."""
    frequency = jnp.maximum(document_frequency, 1).astype(jnp.float32)
    return jnp.log(jnp.maximum(documents, 1).astype(jnp.float32)[:, None]) - jnp.log(frequency)


class IdfPooling(nnx.Module):
    """Average with weights a_j proportional to log(N / df_j). If all terms of a text have weight 0, its vector is 0."""

    def __init__(self, *, input_width: Given[int], rngs: nnx.Rngs):
        del rngs
        self.output_width = input_width

    def __call__(
        self, x: Float[Array, "B S D"], batch: Mapping[str, Array], real: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B P"], dict[str, Float[Array, "B S"]]]:
        weights = normalized(inverse_document_frequency(batch["document_frequency"], batch["documents"]), real)
        return average(x, weights), {"weights": weights}
