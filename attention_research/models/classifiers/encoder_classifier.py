"""A sequence classifier with a Transformer encoder, as in the Long Range Arena (Tay et al. 2021, arXiv 2011.04006).

log p(class | tokens) = log softmax(W2 relu(W1 d + b1) + b2), where d pools the states of an encoder. The released
models of the arena use a CLS vector at the beginning, or alternatively the mean over positions. The default here is the
mean over non-padding positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attention_research.kernels.masks import padding_mask
from attention_research.layers.linear import Linear
from attention_research.signatures import Child, Positive, Rate
from attention_research.tokens import PAD


class EncoderClassifier(nnx.Module):
    """A model with `log_probabilities` of the "source" of a batch. `readout_width` is the width of the layer W1."""

    #: The number of vectors that are concatenated for the readout.
    pooled = 1

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        max_length: Positive,
        width: Positive,
        num_layers: Positive,
        num_heads: Positive,
        num_classes: Positive = 2,
        readout_width: Positive,
        head_width: Positive | None = None,
        dropout_rate: Rate = 0.1,
        dtype: Literal["float32", "bfloat16"] = "float32",
        self_attention: Child["encoder_attention"] = "standard",
        feed_forward: Child["feed_forward"] = "dense",
        norm: Child["norm"] = "layer_norm",
        positions: Child["positions"] = "sinusoidal",
        embedding: Child["embedding"] = "learned",
        encoder: Child["encoder"] = "transformer",
        pooling: Child["pooling"] = "mean",
        rngs: nnx.Rngs,
    ):
        del vocabulary_size, max_length, num_layers, num_heads, head_width, dropout_rate, dtype
        del self_attention, feed_forward, norm, positions  # inherited by the child sections
        self.embedding = embedding(rngs=rngs)
        self.encoder = encoder(rngs=rngs)
        self.pooling = pooling(input_width=width, rngs=rngs)
        self.hidden = Linear(self.pooled * self.pooling.output_width, readout_width, rngs=rngs)
        self.output = Linear(readout_width, num_classes, rngs=rngs)

    def vector(
        self, tokens: Int[Array, "B S"], batch: Mapping[str, Array], key: Key[Array, ""] | None
    ) -> tuple[Float[Array, "B P"], dict[str, Any]]:
        """(the pooled vector of the encoder states, {"pooling", "encoder"} with the aux of the two)."""
        real = tokens != PAD
        positions = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
        mask = padding_mask(real)
        states, aux = self.encoder(self.embedding(tokens), positions, mask, key=key)
        seen = self.encoder.memory_mask(mask)
        real = real if seen is mask else seen[:, 0, 0]  # an encoder may have fewer states than tokens
        vector, pooled = self.pooling(states, batch, real)
        return vector, {"pooling": pooled, "encoder": aux}

    def read_out(self, vector: Float[Array, "B P"]) -> Float[Array, "B C"]:
        """log p of each class, in float32."""
        return jax.nn.log_softmax(self.output(jax.nn.relu(self.hidden(vector))).astype(jnp.float32))

    def log_probabilities(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B C"], dict[str, Any]]:
        """(log p of each class, the aux of `vector`). Without a key, dropout is off."""
        vector, aux = self.vector(batch["source"], batch, key)
        return self.read_out(vector), aux
