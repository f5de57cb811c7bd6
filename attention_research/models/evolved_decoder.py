"""The Evolved Transformer's decoder, So, Liang & Le 2019 (arXiv 1901.11117), Figure 3, as Narang et al. 2021 ran it.

The block was found by architecture search and replaces two blocks of the Transformer. It has these branches, each with
a norm before it and a residual connection around it:

    a wide self-attention plus attention over the memory, both of the same input
    branched causal convolutions (`layers.convolution.evolved_decoder`)
    self-attention
    attention over the memory
    a feed-forward layer

In the paper, the wide self-attention has twice as many heads as the others. Narang et al. keep the width of a head (24
heads of width 64 at D 768, where the other attentions have 12 heads of width 64). Set this in `wide_self_attention`.
The feed-forward layer of the paper uses swish in the decoder. With the relative biases of T5, each of the two
self-attentions has its own table.
"""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.layers.attention.multi_head import owned_by_stack
from attention_research.models.decoder import Decoder
from attention_research.signatures import Child


class EvolvedDecoder(Decoder):
    """Embeddings [B T D] and memory [B S D] -> hidden states [B T D]. The settings are those of the decoder."""

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
        """(hidden states, aux of the stack). Self-attentions and convolutions are causal in addition to `mask`.

        Experts process only the `real` tokens.
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
        """(hidden state, caches, aux) of target position `index`."""
        shared = {
            "wide_self_attention": self.wide_shared,
            "self_attention": self.self_shared,
            "cross_attention": self.cross_shared,
        }
        return self._run_step(x, caches, index, shared)
