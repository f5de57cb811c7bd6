"""The Transformer decoder, Vaswani et al. 2017, section 3.1: masked self-attention and attention over the memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.errors import ConfigError
from attention_research.layers.attention.multi_head import owned_by_stack
from attention_research.models.layered import Layered
from attention_research.signatures import Child, Constructor, Given, Positive, Rate


class Decoder(Layered):
    """Embeddings [B T D] and memory [B S D] -> hidden states [B T D]. The settings are those of the encoder.

    A memory of shape [L B S D] has a separate memory for each layer (`models.transparent_encoder`).
    """

    writes = True

    def __init__(
        self,
        *,
        width: Positive,
        num_layers: Positive,
        dropout_rate: Rate,
        self_attention: Child["causal_attention"],
        cross_attention: Child["cross_attention", "self_attention"],
        feed_forward: Child["feed_forward"],
        norm: Child["norm"],
        residual: Child["residual"] = "plain",
        positions: Child["positions"],
        layout: Child["layout"] = "uniform",
        stack: Child["stack"] = "layers",
        steps: tuple[tuple[str, ...], ...] = (
            ("self_attention", "dropout", "residual", "norm"),
            ("cross_attention", "dropout", "residual", "norm"),
            ("feed_forward", "dropout", "residual", "norm"),
        ),
        final_norm: bool = False,
        unroll: bool = False,
        remat: bool = False,
        others: Given[Mapping[str, Constructor] | None] = None,
        rngs: nnx.Rngs,
    ):
        del width  # the children inherit it from the section
        children = {
            "self_attention": self_attention,
            "cross_attention": cross_attention,
            "feed_forward": feed_forward,
            "norm": norm,
            "residual": residual,
        }
        self._build(
            {**children, **(others or {})},
            num_layers=num_layers,
            steps=steps,
            dropout_rate=dropout_rate,
            positions=positions,
            final_norm=final_norm,
            unroll=unroll,
            remat=remat,
            rngs=rngs,
            layout=layout,
            stack=stack,
        )
        self.self_shared = owned_by_stack(self_attention, rngs)
        crosses = any("cross_attention" in step.split("+") for branch in steps for step in branch)
        self.cross_shared = owned_by_stack(cross_attention, rngs) if crosses else None

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
        """(hidden states, aux of the stack). Self-attention is causal in addition to `mask`. Experts process only the
        `real` tokens."""
        cross, each = self._memories(memory, memory_mask)
        inputs = {"self_attention": {"mask": mask, "is_causal": True, "shared": self.self_shared}, **cross}
        return self._run(x, positions, inputs, key, each, real)

    def start(
        self, memory: Float[Array, "*L B S D"], memory_mask: Bool[Array, "B 1 1 S"], length: int
    ) -> list[dict[str, Any]]:
        """The caches for `length` target positions. Raises ValueError if a table of positions has fewer."""
        self._expect_length(length)
        cross, each = self._memories(memory, memory_mask)
        return self.stack.start(memory.shape[-3], length, memory.dtype, cross, each=each)

    def _memories(
        self, memory: Float[Array, "*L B S D"], mask: Bool[Array, "B 1 #T S"]
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """(inputs of the cross-attention shared by all layers, inputs with a leading layer axis or None)."""
        cross = {"mask": mask, "shared": self.cross_shared}
        if memory.ndim == 3:
            return {"cross_attention": {**cross, "memory": memory}}, None
        layers = sum(self.stack.repeats)
        if len(memory) != layers:
            raise ConfigError(f"encoder.decoder_layers: {len(memory)} memories, but the decoder has {layers} layers")
        return {"cross_attention": cross}, {"cross_attention": {"memory": memory}}

    def step(
        self, x: Float[Array, "B 1 D"], caches: list[dict[str, Any]], index: Int[Array, ""]
    ) -> tuple[Float[Array, "B 1 D"], list[dict[str, Any]], dict[str, Any]]:
        """(hidden state, caches, aux) of target position `index`."""
        shared = {"self_attention": self.self_shared, "cross_attention": self.cross_shared}
        return self._run_step(x, caches, index, shared)
