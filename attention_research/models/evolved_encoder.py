"""The Evolved Transformer's encoder, So, Liang & Le 2019 (arXiv 1901.11117), Figure 3, as Narang et al. 2021 ran it.

A block that architecture search found, worth two of the Transformer's: each of

    a gated linear unit, branched convolutions (`layers.convolution.evolved_encoder`), self-attention, a feed-forward

behind a norm, with a residual around it. The paper's feed-forward has relu in the encoder, swish in the decoder.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.models.encoder import Encoder
from attention_research.signatures import Child


class EvolvedEncoder(Encoder):
    """Embeddings [B S D] -> hidden states [B S D]; settings as the encoder's. Padding and packed rows stay apart."""

    def __init__(
        self,
        *,
        gated_linear_unit: Child["feed_forward"] = "gated_linear_unit",
        convolution: Child["encoder_convolution"] = "evolved",
        steps: tuple[tuple[str, ...], ...] = (
            ("norm", "gated_linear_unit", "dropout", "residual"),
            ("norm", "convolution", "dropout", "residual"),
            ("norm", "self_attention", "dropout", "residual"),
            ("norm", "feed_forward", "dropout", "residual"),
        ),
        final_norm: bool = True,
        **inherited: Any,
    ):
        others = {"gated_linear_unit": gated_linear_unit, "convolution": convolution}
        super().__init__(steps=steps, final_norm=final_norm, others=others, **inherited)

    def __call__(
        self,
        x: Float[Array, "B S D"],
        positions: Int[Array, "#B S"],
        mask: Bool[Array, "B 1 #S S"],
        *,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B S D"], dict[str, Any]]:
        """(hidden states, aux of the stack)."""
        inputs: dict[str, dict[str, Any]] = {
            "self_attention": {"mask": mask, "shared": self.shared},
            "convolution": {"mask": mask},
        }
        return self._run(x, positions, inputs, key)
