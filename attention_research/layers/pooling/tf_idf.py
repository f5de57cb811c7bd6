"""Static attention with TF-IDF weights: each occurrence of a term has the weight tf log(N / df).

tf is the number of occurrences of the term in the text. This applies the weight of a *term* (Salton & Buckley 1988,
without their normalizations) to every occurrence: a distinct term contributes tf^2 log(N / df) in total, because it
is added tf times. With the pooling `idf`, each distinct term contributes its TF-IDF.
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
    """The number of occurrences of each position's token among the non-padding tokens of its text."""
    same = (tokens[:, :, None] == tokens[:, None, :]) & real[:, None, :]
    return jnp.sum(same, axis=2).astype(jnp.float32)


class TfIdfPooling(nnx.Module):
    """Average with weights a_j proportional to tf_j log(N / df_j)."""

    def __init__(self, *, input_width: Given[int], rngs: nnx.Rngs):
        del rngs
        self.output_width = input_width

    def __call__(
        self, x: Float[Array, "B S D"], batch: Mapping[str, Array], real: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B P"], dict[str, Float[Array, "B S"]]]:
        idf = inverse_document_frequency(batch["document_frequency"], batch["documents"])
        weights = normalized(term_frequency(batch["source"], real) * idf, real)
        return average(x, weights), {"weights": weights}
