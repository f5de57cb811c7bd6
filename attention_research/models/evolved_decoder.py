"""The Evolved Transformer's decoder, So, Liang & Le 2019 (arXiv 1901.11117), Figure 3, as Narang et al. 2021 ran it.

A block that architecture search found, worth two of the Transformer's: each of

    a wide self-attention plus attention over the memory, both of the same value
    branched causal convolutions (`layers.convolution.evolved_decoder`)
    self-attention, attention over the memory, a feed-forward

behind a norm, with a residual around it. The paper's wide self-attention has twice as many heads as the others, in
Narang et al. of the same width (24 of 64 at D 768, beside 12 of 64): say so in `wide_self_attention`. The paper's
feed-forward has swish here. With T5's relative biases each of the two self-attentions has a table of its own.
"""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.layers.attention.multi_head import owned_by_stack
from attention_research.models.decoder import Decoder
from attention_research.signatures import Child


class EvolvedDecoder(Decoder):
    """Embeddings [B T D] and memory [B S D] -> hidden states [B T D]; settings as the decoder's."""

    def __init__(
        self,
        *,
        wide_self_attention: Child["causal_attention", "self_attention"],
        convolution: Child["causal_convolution"] = "evolved",
        steps: tuple[tuple[str, ...], ...] = (
            ("norm", "wide_self_attention+cross_attention", "dropout", "residual"),
            ("norm", "convolution", "dropout", "residual"),
            ("norm", "self_attention", "dropout", "residual"),
            ("norm", "cross_attention", "dropout", "residual"),
            ("norm", "feed_forward", "dropout", "residual"),
        ),
        final_norm: bool = True,
        rngs: nnx.Rngs,
        **inherited: Any,
    ):
        others = {"wide_self_attention": wide_self_attention, "convolution": convolution}
        super().__init__(steps=steps, final_norm=final_norm, others=others, rngs=rngs, **inherited)
        self.wide_shared = owned_by_stack(wide_self_attention, rngs)

    def __call__(
        self,
        x: Float[Array, "B T D"],
        positions: Int[Array, "#B T"],
        mask: Bool[Array, "B 1 #T T"] | None,
        memory: Float[Array, "*L B S D"],
        memory_mask: Bool[Array, "B 1 #T S"],
        *,
        real: Bool[Array, "B T"] | None = None,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """(hidden states, aux of the stack); self-attentions and convolutions are causal beside `mask`.

        Only `real` tokens go to experts.
        """
        cross, each = self._memories(memory, memory_mask)
        causal = {"mask": mask, "is_causal": True}
        inputs = {
            "wide_self_attention": {**causal, "shared": self.wide_shared},
            "self_attention": {**causal, "shared": self.self_shared},
            "convolution": {"mask": mask},
            **cross,
        }
        return self._run(x, positions, inputs, key, each, real)

    def step(
        self, x: Float[Array, "B 1 D"], caches: list[dict[str, Any]], index: Int[Array, ""]
    ) -> tuple[Float[Array, "B 1 D"], list[dict[str, Any]], dict[str, Any]]:
        """Target position `index`: (hidden state, caches, aux)."""
        shared = {
            "wide_self_attention": self.wide_shared,
            "self_attention": self.self_shared,
            "cross_attention": self.cross_shared,
        }
        return self._run_step(x, caches, index, shared)
