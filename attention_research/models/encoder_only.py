"""An encoder-only Transformer (Devlin et al. 2019): every position attends to every other position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.models.sequences import Sequence, positions, sequence, visible
from attention_research.signatures import Child, Positive, Rate


class TransformerEncoder(nnx.Module):
    """A model with `encode`, and `log_likelihood` of ``batch["target"]`` at each position of ``batch["source"]``, for
    tagging and masked language modelling. It cannot generate text, so it does not have `start` and `step`."""

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
        self_attention: Child["encoder_attention"] = "standard",
        feed_forward: Child["feed_forward"] = "dense",
        norm: Child["norm"] = "layer_norm",
        positions: Child["positions"] = "sinusoidal",
        vocabulary: Child["vocabulary"] = "shared",
        encoder: Child["encoder"] = "transformer",
        rngs: nnx.Rngs,
    ):
        del vocabulary_size, max_length, width, num_layers, num_heads, head_width, dropout_rate, dtype
        del self_attention, feed_forward, norm, positions  # inherited by the child sections
        self.vocabulary = vocabulary(rngs=rngs)
        self.encoder = encoder(rngs=rngs)

    def encode(self, source: Sequence, *, key: Key[Array, ""] | None = None) -> dict[str, Any]:
        """The memory: hidden states [B S D], the source, and the aux of the encoder."""
        x = self.vocabulary.source(source["tokens"])
        hidden, aux = self.encoder(x, positions(source), visible(source, source), key=key)
        return {"hidden": hidden, "source": dict(source), "aux": aux}

    def log_likelihood(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[dict[str, Float[Array, "B T"]], dict[str, Any]]:
        """({"log_likelihood", "smooth_log_likelihood", "mask"} per position, aux). The mask is False at positions whose
        target is padding."""
        memory = self.encode(sequence(batch, "source"), key=key)
        values = self.vocabulary.log_likelihood(memory["hidden"], batch["target"])
        return {**values, "mask": batch["target"] != 0}, {"encoder": memory["aux"]}
