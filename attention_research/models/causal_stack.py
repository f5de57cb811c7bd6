"""A Transformer decoder without a memory (Radford et al. 2018): the decoder-only stack of a language model."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.layers.attention.multi_head import owned_by_stack
from attention_research.layers.block import Block
from attention_research.layers.dropout import dropout
from attention_research.layers.stack import Stack
from attention_research.registry import Child, Positive, Rate


class CausalStack(nnx.Module):
    """Embeddings [B T D] -> hidden states [B T D], position t seeing 0..t; pre-norm by default, as GPT-2."""

    def __init__(
        self,
        *,
        width: Positive,
        num_layers: Positive,
        dropout_rate: Rate,
        self_attention: Child["causal_attention"],
        feed_forward: Child["feed_forward"],
        norm: Child["norm"],
        positions: Child["positions"],
        steps: tuple[tuple[str, ...], ...] = (
            ("norm", "self_attention", "dropout", "residual"),
            ("norm", "feed_forward", "dropout", "residual"),
        ),
        final_norm: bool = True,
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
        x: Float[Array, "B T D"],
        positions: Int[Array, "#B T"],
        mask: Bool[Array, "B 1 #T T"] | None,
        *,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """(hidden states, aux of the stack)."""
        keys = (None, None) if key is None else jax.random.split(key)
        x = dropout(self.positions(x, positions), self.dropout_rate, keys[0])
        inputs = {"self_attention": {"mask": mask, "is_causal": True, "shared": self.shared}}
        x, aux = self.stack(x, inputs, key=keys[1])
        return (x if self.final_norm is None else self.final_norm(x)), aux

    def start(self, batch: int, length: int, dtype: Any) -> list[dict[str, Any]]:
        """Empty caches for `length` positions."""
        return self.stack.start(batch, length, dtype, {})

    def step(
        self, x: Float[Array, "B 1 D"], caches: list[dict[str, Any]], index: Int[Array, ""]
    ) -> tuple[Float[Array, "B 1 D"], list[dict[str, Any]], dict[str, Any]]:
        """Position `index`: (hidden state, caches, aux)."""
        x = self.positions(x, jnp.broadcast_to(index, (1, 1)))
        x, caches, aux = self.stack.step(x, caches, index, {"self_attention": self.shared})
        return (x if self.final_norm is None else self.final_norm(x)), caches, aux
