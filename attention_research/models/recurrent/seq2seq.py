"""Recurrent sequence-to-sequence models (Sutskever et al. 2014, Bahdanau et al. 2015, Luong et al. 2015).

The sections of the config choose the model: encoder, decoder, alignment, cell and initialization.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from attention_research.models.recurrent.writer import RecurrentWriter
from attention_research.models.sequences import Sequence, sequence, shift_right
from attention_research.signatures import Child, Positive, Rate
from attention_research.tokens import PAD


class RecurrentSeq2Seq(RecurrentWriter):
    """Maps source tokens to target tokens.

    `cell` and `alignment` are the defaults of the encoder and the decoder, which can override them in their own
    sections. If `embedding_width` is None, it is `width`. Rows hold one example; packed batches raise ValueError.

    `reverse_source` reads the source from its end (Sutskever et al. 2014, section 3.3). The encoder states and the
    alignments are still in the order of the source.
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
        reverse_source: bool = False,
        cell: Child["recurrent_cell"] = "lstm",
        alignment: Child["alignment"] = "global",
        vocabulary: Child["recurrent_vocabulary"] = "source_and_target",
        encoder: Child["recurrent_encoder"] = "unidirectional",
        decoder: Child["recurrent_decoder"] = "luong",
        initialization: Child["initialization"] = "as_built",
        rngs: nnx.Rngs,
    ):
        del vocabulary_size, num_layers, dropout_rate, dtype, cell, alignment  # inherited by the child sections
        self.max_length, self.reverse_source = max_length, reverse_source
        embedding_width = width if embedding_width is None else embedding_width
        self.encoder = encoder(input_width=embedding_width, rngs=rngs)
        self.decoder = decoder(
            input_width=embedding_width,
            key_width=self.encoder.output_width,
            summary_width=self.encoder.summary_width,
            final_width=self.encoder.final_width,
            rngs=rngs,
        )
        self.vocabulary = vocabulary(embedding_width=embedding_width, output_width=self.decoder.output_width, rngs=rngs)
        initialization()(self, rngs)

    def encode(self, source: Sequence, *, key: Key[Array, ""] | None = None) -> dict[str, Any]:
        """The memory: hidden states [B S Dk] in the order of the source, "real" [B S] (no padding), the last states."""
        if "segments" in source:
            raise ValueError("a recurrent encoder reads one example per row; use data.batching.kind=buckets")
        real = source["tokens"] != PAD
        x = self.vocabulary.source(source["tokens"])
        if self.reverse_source:
            memory = self.encoder(_reversed(x, real), real, key=key)
            return {**memory, "hidden": _reversed(memory["hidden"], real), "real": real}
        return {**self.encoder(x, real, key=key), "real": real}

    def log_likelihood(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        """({"log_likelihood", "smooth_log_likelihood", "mask"}, [B T] each, {"decoder": {"alignment": [B T S]}})."""
        keys = (None, None) if key is None else jax.random.split(key)
        memory = self.encode(sequence(batch, "source"), key=keys[0])
        target = sequence(batch, "target")
        hidden, aux = self.decoder(self.vocabulary.target(shift_right(target)), memory, key=keys[1])
        values = self.vocabulary.log_likelihood(hidden, target["tokens"])
        return {**values, "mask": target["tokens"] != PAD}, {"decoder": aux}


def _reversed(x: Float[Array, "B S D"], real: Bool[Array, "B S"]) -> Float[Array, "B S D"]:
    """Reverses the order of the non-padding positions of each row. Padding keeps its place."""
    length, place = jnp.sum(real, axis=1, keepdims=True), jnp.arange(real.shape[1])
    return jnp.take_along_axis(x, jnp.where(real, length - 1 - place, place)[..., None], axis=1)
