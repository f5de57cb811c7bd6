"""Image captioning with a Transformer that encodes the cells of a feature map.

This is the basic model of Cornia et al. 2020 (arXiv 1912.08226, section 3) without its memory vectors. The cells are
projected to the width of the model, receive positions row by row, and pass an encoder. The decoder attends to the
encoder outputs by cross-attention, which is its only access to the image.
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
from attention_research.layers.running_statistics import UPDATES, nested
from attention_research.models.sequences import Sequence, positions, sequence, shift_right
from attention_research.signatures import Child, Positive, Rate
from attention_research.tokens import PAD


class TransformerCaptioner(nnx.Module):
    """Maps images to text. The sections are those of `models.transformer`, and `features` for the image network."""

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        max_length: Positive,
        width: Positive,
        num_layers: Positive,
        num_heads: Positive,
        head_width: Positive | None = None,
        dropout_rate: Rate = 0.1,
        dtype: Literal["float32", "bfloat16"] = "float32",
        self_attention: Child["attention"] = "standard",
        feed_forward: Child["feed_forward"] = "dense",
        norm: Child["norm"] = "layer_norm",
        positions: Child["positions"] = "sinusoidal",
        features: Child["image_features"] = "cnn",
        vocabulary: Child["vocabulary"] = "unscaled",
        encoder: Child["encoder"] = "transformer",
        decoder: Child["decoder"] = "transformer",
        rngs: nnx.Rngs,
    ):
        del vocabulary_size, num_layers, num_heads, head_width, dropout_rate, dtype  # inherited by the child sections
        del self_attention, feed_forward, norm, positions
        self.max_length = max_length
        self.features = features(rngs=rngs)
        self.project = Linear(self.features.output_width, width, rngs=rngs)
        self.vocabulary = vocabulary(rngs=rngs)
        self.encoder = encoder(rngs=rngs)
        self.decoder = decoder(rngs=rngs)

    def encode(self, source: Sequence, *, key: Key[Array, ""] | None = None) -> dict[str, Any]:
        """The memory: the encoder output [B S D] for the cells of source["image"] row by row, aux and updates."""
        keys = (None, None) if key is None else jax.random.split(key)
        grid, aux = self.features(source["image"], key=keys[0])
        cells = self.project(grid.reshape(grid.shape[0], -1, grid.shape[-1]))
        places = jnp.arange(cells.shape[1], dtype=jnp.int32)[None]
        hidden, encoded = self.encoder(cells, places, self._all_cells(cells), key=keys[1])
        return {"hidden": hidden, "aux": encoded, UPDATES: aux[UPDATES]}

    def log_likelihood(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[dict[str, Float[Array, "B T"]], dict[str, Any]]:
        """({"log_likelihood", "smooth_log_likelihood", "mask"} per token, {"encoder", "decoder", "updates"})."""
        keys = (None, None) if key is None else jax.random.split(key)
        memory = self.encode({"image": batch["image"]}, key=keys[0])
        target = sequence(batch, "target")
        hidden, aux = self.decoder(
            self.vocabulary.target(shift_right(target)), positions(target), None, memory["hidden"],
            self._all_cells(memory["hidden"]), real=target["tokens"] != PAD, key=keys[1],
        )  # fmt: skip
        values = self.vocabulary.log_likelihood(hidden, target["tokens"])
        updates = nested(features=memory[UPDATES])
        return {**values, "mask": target["tokens"] != PAD}, {
            "encoder": memory["aux"], "decoder": aux, UPDATES: updates,
        }  # fmt: skip

    def start(self, memory: Mapping[str, Any], length: int | None = None) -> dict[str, Any]:
        """The cache before the first token, for texts of up to `length` (default `max_length`)."""
        mask = self._all_cells(memory["hidden"])
        layers = self.decoder.start(memory["hidden"], mask, self.max_length if length is None else length)
        return {"index": jnp.zeros((), jnp.int32), "layers": layers}

    def step(
        self, cache: Mapping[str, Any], tokens: Int[Array, "B"]
    ) -> tuple[dict[str, Any], Float[Array, "B V"], dict[str, Any]]:
        """(cache, log p of the next token, collected), given the previous token (BOS first)."""
        x = self.vocabulary.target(tokens[:, None])
        hidden, layers, aux = self.decoder.step(x, cache["layers"], cache["index"])
        return {"index": cache["index"] + 1, "layers": layers}, self.vocabulary.log_probabilities(hidden[:, 0]), aux

    def _all_cells(self, cells: Float[Array, "B S D"]) -> Array:
        return padding_mask(jnp.ones(cells.shape[:2], bool))
