"""The Transformer encoder, Vaswani et al. 2017, section 3.1: positions, dropout, then a stack of blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.layers.attention.multi_head import owned_by_stack
from attention_research.models.layered import Layered
from attention_research.signatures import Child, Constructor, Given, Positive, Rate


class Encoder(Layered):
    """Embeddings [B S D] -> hidden states [B S D]. `steps` are the residual branches of one block (`layers.block`).

    The default is the post-norm of the paper; a pre-norm stack needs `final_norm`. `layout` determines which layers
    differ (`layers.layouts`), and `stack` whether each layer has its own weights. `unroll` replaces the scan over the
    layers by a loop, which suits shallow stacks on a CPU. `others` are additional children of a subclass.
    """

    def __init__(
        self,
        *,
        width: Positive,
        num_layers: Positive,
        dropout_rate: Rate,
        self_attention: Child["encoder_attention"],
        feed_forward: Child["feed_forward"],
        norm: Child["norm"],
        residual: Child["residual"] = "plain",
        positions: Child["positions"],
        layout: Child["layout"] = "uniform",
        stack: Child["stack"] = "layers",
        steps: tuple[tuple[str, ...], ...] = (
            ("self_attention", "dropout", "residual", "norm"),
            ("feed_forward", "dropout", "residual", "norm"),
        ),
        final_norm: bool = False,
        unroll: bool = False,
        remat: bool = False,
        others: Given[Mapping[str, Constructor] | None] = None,
        rngs: nnx.Rngs,
    ):
        del width  # the children inherit it from the section
        children = {"self_attention": self_attention, "feed_forward": feed_forward, "norm": norm, "residual": residual}
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
        self.shared = owned_by_stack(self_attention, rngs)

    def __call__(
        self,
        x: Float[Array, "B S D"],
        positions: Int[Array, "#B S"],
        mask: Bool[Array, "B 1 #S S"],
        *,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B S D"], dict[str, Any]]:
        """(hidden states, aux of the stack)."""
        return self._run(x, positions, {"self_attention": {"mask": mask, "shared": self.shared}}, key)

    def memory_mask(self, mask: Bool[Array, "B 1 #T S"]) -> Bool[Array, "B 1 #T S"]:
        """The mask of the hidden states that a decoder may attend to. It equals the mask of the source tokens."""
        return mask
