"""The Transformer decoder, Vaswani et al. 2017, section 3.1: masked self-attention and attention over the memory."""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.layers.attention.multi_head import owned_by_stack
from attention_research.models.layered import Layered
from attention_research.registry import Child, Positive, Rate


class Decoder(Layered):
    """Embeddings [B T D] and memory [B S D] -> hidden states [B T D]; `steps` and the rest as in the encoder."""

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
        positions: Child["positions"],
        steps: tuple[tuple[str, ...], ...] = (
            ("self_attention", "dropout", "residual", "norm"),
            ("cross_attention", "dropout", "residual", "norm"),
            ("feed_forward", "dropout", "residual", "norm"),
        ),
        final_norm: bool = False,
        unroll: bool = False,
        remat: bool = False,
        rngs: nnx.Rngs,
    ):
        del width  # its children take it from the section
        children = {
            "self_attention": self_attention,
            "cross_attention": cross_attention,
            "feed_forward": feed_forward,
            "norm": norm,
        }
        self._build(
            children,
            num_layers=num_layers,
            steps=steps,
            dropout_rate=dropout_rate,
            positions=positions,
            final_norm=final_norm,
            unroll=unroll,
            remat=remat,
            rngs=rngs,
        )
        self.self_shared = owned_by_stack(self_attention, rngs)
        crosses = any("cross_attention" in branch for branch in steps)
        self.cross_shared = owned_by_stack(cross_attention, rngs) if crosses else None

    def __call__(
        self,
        x: Float[Array, "B T D"],
        positions: Int[Array, "#B T"],
        mask: Bool[Array, "B 1 #T T"] | None,
        memory: Float[Array, "B S D"],
        memory_mask: Bool[Array, "B 1 #T S"],
        *,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """(hidden states, aux of the stack); self-attention is causal beside `mask`."""
        inputs = {
            "self_attention": {"mask": mask, "is_causal": True, "shared": self.self_shared},
            "cross_attention": {"memory": memory, "mask": memory_mask, "shared": self.cross_shared},
        }
        return self._run(x, positions, inputs, key)

    def start(
        self, memory: Float[Array, "B S D"], memory_mask: Bool[Array, "B 1 1 S"], length: int
    ) -> list[dict[str, Any]]:
        """The caches for `length` target positions."""
        cross = {"memory": memory, "mask": memory_mask, "shared": self.cross_shared}
        return self.stack.start(memory.shape[0], length, memory.dtype, {"cross_attention": cross})

    def step(
        self, x: Float[Array, "B 1 D"], caches: list[dict[str, Any]], index: Int[Array, ""]
    ) -> tuple[Float[Array, "B 1 D"], list[dict[str, Any]], dict[str, Any]]:
        """Target position `index`: (hidden state, caches, aux)."""
        shared = {"self_attention": self.self_shared, "cross_attention": self.cross_shared}
        return self._run_step(x, caches, index, shared)
