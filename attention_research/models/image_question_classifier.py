"""Visual question answering as classification: the words of the question attend to the cells of the image.

    w = encoder(words)      r = reader(w, cells)      log p(answer) = log softmax(W_2 relu(W_1 mean_t norm(w_t + r_t)))

The reader is cross-attention from words to image features, or one pooled vector of the image for all words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.kernels.masks import padding_mask
from attention_research.layers.linear import Linear
from attention_research.layers.pooling.average import average, normalized
from attention_research.layers.running_statistics import UPDATES, nested
from attention_research.signatures import Child, Positive, Rate
from attention_research.tokens import PAD


class ImageQuestionClassifier(nnx.Module):
    """A model with `log_probabilities` of the "image" and "source" of a batch.

    Cells are numbered row by row. `places` encodes their positions; its `max_length` is the number of cells.

    `readout_width` is the width of the hidden layer W_1, and `reader` how the words read the image.
    """

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        max_length: Positive,
        width: Positive,
        num_layers: Positive,
        num_heads: Positive,
        num_classes: Positive,
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
        features: Child["image_features"] = "cnn",
        places: Child["positions"],
        reader: Child["image_reader"] = "cross_attention",
        rngs: nnx.Rngs,
    ):
        del vocabulary_size, max_length, num_layers, num_heads, head_width, dropout_rate, dtype
        del self_attention, feed_forward, positions  # inherited by the child sections
        self.embedding = embedding(rngs=rngs)
        self.encoder = encoder(rngs=rngs)
        self.features = features(rngs=rngs)
        self.project = Linear(self.features.output_width, width, rngs=rngs)
        self.places = places(rngs=rngs)
        self.reader = reader(rngs=rngs)
        self.norm = norm(rngs=rngs)
        self.hidden = Linear(width, readout_width, rngs=rngs)
        self.output = Linear(readout_width, num_classes, rngs=rngs)

    def log_probabilities(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B C"], dict[str, Any]]:
        """(log p of each answer in float32, aux).

        aux has {"reader": {"attention_weights" [B N T cells]}, "pooling": {"weights" [B cells]}, "encoder", "updates"}.
        The pooling weights are the mean of the attention weights over heads and non-padding words.
        """
        keys = (None, None) if key is None else jax.random.split(key)
        real = batch["source"] != PAD
        numbers = lambda x: jnp.arange(x.shape[1], dtype=jnp.int32)[None]
        x = self.embedding(batch["source"])
        mask = padding_mask(real)
        words, encoded = self.encoder(x, numbers(x), mask, key=keys[0])
        kept = self.encoder.memory_mask(mask)
        real = real if kept is mask else kept[:, 0, 0]  # an encoder may have fewer states than tokens
        grid, aux = self.features(batch["image"], key=keys[1])
        cells = self.project(grid.reshape(grid.shape[0], -1, grid.shape[-1]))
        cells = self.places(cells, numbers(cells))
        read, seen = self.reader(words, cells)
        uniform = normalized(jnp.ones(real.shape, jnp.float32), real)
        vector = average(self.norm(words + read), uniform)
        log_p = jax.nn.log_softmax(self.output(jax.nn.relu(self.hidden(vector))).astype(jnp.float32))
        weights = jnp.einsum("BNTS,BT->BS", seen["attention_weights"], uniform) / seen["attention_weights"].shape[1]
        updates = nested(features=aux.pop(UPDATES))
        return log_p, {"reader": seen, "pooling": {"weights": weights}, "encoder": encoded, UPDATES: updates}
