"""Image captioning with a recurrent decoder: Vinyals et al. 2015 (one vector), Xu et al. 2015 (attention).

The sections of the config choose the model: the decoder `fixed_vector`, or `show_attend_tell` with an alignment over
the cells of the feature map: `global` (soft), `hard`, `sca`, or `last_state` (the mean of the cells at every step).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Key

from attention_research.layers.running_statistics import UPDATES, nested
from attention_research.models.recurrent.writer import RecurrentWriter
from attention_research.models.sequences import Sequence, sequence, shift_right
from attention_research.signatures import Child, Positive, Rate
from attention_research.tokens import PAD


class RecurrentCaptioner(RecurrentWriter):
    """Maps images to text. If `embedding_width` is None, it is `width`; the features have their own width.

    The entries "last" and "summary" of the memory are the mean of the cells.
    """

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        max_length: Positive,
        width: Positive,
        num_layers: Positive = 1,
        embedding_width: Positive | None = None,
        dropout_rate: Rate = 0.0,
        dtype: Literal["float32", "bfloat16"] = "float32",
        cell: Child["recurrent_cell"] = "lstm",
        alignment: Child["image_alignment"] = "global",
        features: Child["image_features"] = "cnn",
        vocabulary: Child["caption_vocabulary"] = "target_only",
        decoder: Child["caption_decoder"] = "show_attend_tell",
        initialization: Child["initialization"] = "as_built",
        rngs: nnx.Rngs,
    ):
        del vocabulary_size, num_layers, dropout_rate, dtype, cell, alignment  # inherited by the child sections
        self.max_length = max_length
        embedding_width = width if embedding_width is None else embedding_width
        self.features = features(rngs=rngs)
        cells = self.features.output_width
        self.decoder = decoder(  # an image encoder has no final state for the start of the decoder
            input_width=embedding_width, key_width=cells, summary_width=cells, final_width=0, rngs=rngs
        )
        self.vocabulary = vocabulary(embedding_width=embedding_width, output_width=self.decoder.output_width, rngs=rngs)
        initialization()(self, rngs)

    def encode(self, source: Sequence, *, key: Key[Array, ""] | None = None) -> dict[str, Any]:
        """The memory: the cells of source["image"] row by row as "hidden" [B S Dk], their mean, and updates.

        All cells are marked as non-padding by "real".
        """
        keys = (None, None) if key is None else jax.random.split(key)
        grid, aux = self.features(source["image"], key=keys[0])
        hidden = grid.reshape(grid.shape[0], -1, grid.shape[-1])
        mean = jnp.mean(hidden, axis=1)
        memory = {"hidden": hidden, "real": jnp.ones(hidden.shape[:2], bool), "last": mean, "summary": mean}
        coins = {} if keys[1] is None else {"coins": jax.random.bernoulli(keys[1], 0.5, hidden.shape[:1])}
        return {**memory, **coins, UPDATES: aux[UPDATES]}

    def log_likelihood(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        """({"log_likelihood", "smooth_log_likelihood", "mask"}, [B T] each, aux).

        aux has "decoder" with the "alignment" [B T S] and the reported values of the decoder, and "updates". With hard
        attention, it also has "judged" with the "cost" [B 1] of each text and the "baseline".
        """
        keys = (None, None) if key is None else jax.random.split(key)
        memory = self.encode({"image": batch["image"]}, key=keys[0])
        target = sequence(batch, "target")
        hidden, aux = self.decoder(self.vocabulary.target(shift_right(target)), memory, key=keys[1])
        values = self.vocabulary.log_likelihood(hidden, target["tokens"])
        values = {**values, "mask": target["tokens"] != PAD}
        judged, updates = self._judged(values) if self.decoder.reported else ({}, {})
        updates = nested(features=memory[UPDATES], decoder=updates) if key is not None else {}
        return values, {"decoder": aux, "judged": judged, UPDATES: updates}

    def _judged(self, values: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Any]]:
        """The cost of the sampled choices of hard attention and its baseline, and updates. The cost is the mean over
        the words of a text, as in the released code."""
        total = -jnp.sum(values["log_likelihood"], axis=1, where=values["mask"])
        cost = total / jnp.maximum(jnp.sum(values["mask"], axis=1, dtype=total.dtype), 1)
        baseline, updates = self.decoder.alignment.judged(cost[:, None])
        return {"cost": cost[:, None], "baseline": baseline}, nested(alignment=updates)
