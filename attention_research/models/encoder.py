"""The Transformer encoder, Vaswani et al. 2017, section 3.1: positions, dropout, then a stack of blocks."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.layers.attention.multi_head import owned_by_stack
from attention_research.layers.block import Block
from attention_research.layers.dropout import dropout
from attention_research.layers.stack import Stack
from attention_research.registry import Child, Positive, Rate


class Encoder(nnx.Module):
    """Embeddings [B S D] -> hidden states [B S D]; `steps` are one block's residual branches (`layers.block`).

    The default is the paper's post-norm; a pre-norm stack adds `final_norm`. `unroll` suits shallow stacks on a CPU.
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
        positions: Child["positions"],
        steps: tuple[tuple[str, ...], ...] = (
            ("self_attention", "dropout", "residual", "norm"),
            ("feed_forward", "dropout", "residual", "norm"),
        ),
        final_norm: bool = False,
        unroll: bool = False,
        remat: bool = False,
        rngs: nnx.Rngs,
    ):
        del width  # its children take it from the section
        children = {"self_attention": self_attention, "feed_forward": feed_forward, "norm": norm}
        block = partial(Block, steps=steps, children=children, dropout_rate=dropout_rate)
        self.dropout_rate = dropout_rate
        self.positions = positions(rngs=rngs)
        self.shared = owned_by_stack(self_attention, rngs)
        self.stack = Stack(segments=[(block, num_layers)], unroll=unroll, remat=remat, rngs=rngs)
        self.final_norm = norm(rngs=rngs) if final_norm else None

    def __call__(
        self,
        x: Float[Array, "B S D"],
        positions: Int[Array, "#B S"],
        mask: Bool[Array, "B 1 #S S"],
        *,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B S D"], dict[str, Any]]:
        """(hidden states, aux of the stack)."""
        keys = (None, None) if key is None else jax.random.split(key)
        x = dropout(self.positions(x, positions), self.dropout_rate, keys[0])
        x, aux = self.stack(x, {"self_attention": {"mask": mask, "shared": self.shared}}, key=keys[1])
        return (x if self.final_norm is None else self.final_norm(x)), aux
