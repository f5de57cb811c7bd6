"""Static attention by term and document: each occurrence weighs tf log(N / df), tf the term's count in the text.

The formula of a *token's* weight (Salton & Buckley 1988, without their normalisations), put on every occurrence of the
token: over distinct terms it is tf^2 log(N / df), since a term that stands tf times is added tf times. `idf` is the
pooling that gives each distinct term its TF-IDF.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention_research.layers.pooling.average import average, normalized
from attention_research.layers.pooling.idf import inverse_document_frequency
from attention_research.signatures import Given


def term_frequency(tokens: Int[Array, "B S"], real: Bool[Array, "B S"]) -> Float[Array, "B S"]:
    """How often the token of each position stands among the real ones of its text."""
    same = (tokens[:, :, None] == tokens[:, None, :]) & real[:, None, :]
    return jnp.sum(same, axis=2).astype(jnp.float32)


class TfIdfPooling(nnx.Module):
    """a_j proportional to tf_j log(N / df_j)."""

    def __init__(self, *, input_width: Given[int], rngs: nnx.Rngs):
        del rngs
        self.output_width = input_width

    def __call__(
        self, x: Float[Array, "B S D"], batch: Mapping[str, Array], real: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B P"], dict[str, Float[Array, "B S"]]]:
        idf = inverse_document_frequency(batch["document_frequency"], batch["documents"])
        weights = normalized(term_frequency(batch["source"], real) * idf, real)
        return average(x, weights), {"weights": weights}
