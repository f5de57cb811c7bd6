"""The Evolved Transformer's encoder, So, Liang & Le 2019 (arXiv 1901.11117), Figure 3, as Narang et al. 2021 ran it.

The block was found by architecture search and replaces two blocks of the Transformer. It has these branches, each with
a norm before it and a residual connection around it:

    a gated linear unit
    branched convolutions (`layers.convolution.evolved_encoder`)
    self-attention
    a feed-forward layer

The feed-forward layer of the paper uses relu in the encoder and swish in the decoder.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.models.encoder import Encoder
from attention_research.signatures import Child


class EvolvedEncoder(Encoder):
    """Embeddings [B S D] -> hidden states [B S D]. The settings are those of the encoder. The convolutions do not mix
    padding or different examples of a packed row.

    `gated_linear_unit` is the first branch of each block.
    """

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
