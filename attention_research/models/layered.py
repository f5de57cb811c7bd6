"""The base class of encoders and decoders: positions, dropout, a stack of blocks, and an optional final norm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.errors import ConfigError
from attention_research.layers.block import Block
from attention_research.layers.dropout import dropout
from attention_research.layers.layouts.by_layer import by_layer
from attention_research.layers.padding import real_tokens
from attention_research.layers.positions.conditional import placed
from attention_research.layers.stack import Stack
from attention_research.signatures import Constructor


class Layered(nnx.Module):
    """The base class of stacks of one kind of block. Subclasses define the signature and the inputs of each
    attention."""

    #: A description of the input of a stack that generates text.
    reads = "target embedding, shifted right"
    #: Whether the stack decodes token by token (`step`). Then no position attends to a later one, also in training.
    writes = False

    def _build(
        self,
        children: Mapping[str, Constructor],
        *,
        num_layers: int,
        steps: tuple[tuple[str, ...], ...],
        dropout_rate: float,
        positions: Constructor,
        final_norm: bool,
        unroll: bool,
        remat: bool,
        rngs: nnx.Rngs,
        layout: Callable[..., Any] | None = None,
        stack: Callable[..., Stack] = Stack,
    ) -> None:
        if self.writes and getattr(positions.target, "reads_neighbours", False):
            name = positions.target.__name__
            raise ConfigError(f"positions.kind: {name} reads later tokens, which a decoder cannot know")
        layers = by_layer([(children, num_layers)] if layout is None else layout()(children, num_layers))
        block = partial(Block, steps=steps, dropout_rate=dropout_rate)
        segments = [(partial(block, children=some), repeat) for some, repeat in layers]
        self.dropout_rate = dropout_rate
        self.positions = positions(rngs=rngs)
        self.stack = stack(segments=segments, unroll=unroll, remat=remat, rngs=rngs)
        self.final_norm = children["norm"](rngs=rngs) if final_norm else None

    def _expect_length(self, length: int) -> None:
        """Raises ValueError if a text of `length` tokens is longer than a table of positions."""
        expect = getattr(self.positions, "expect_length", None)
        if expect is not None:
            expect(length)

    def _enter(
        self,
        x: Float[Array, "B T D"],
        positions: Int[Array, "#B T"],
        key: Key[Array, ""] | None,
        mask: Bool[Array, "B 1 #T T"] | None = None,
    ) -> Float[Array, "B T D"]:
        """The input of the first layer: embeddings with positions, after dropout."""
        return dropout(placed(self.positions, x, positions, mask), self.dropout_rate, key)

    def _run(
        self,
        x: Float[Array, "B T D"],
        positions: Int[Array, "#B T"],
        inputs: Mapping[str, Mapping[str, Any]],
        key: Key[Array, ""] | None,
        each: Mapping[str, Mapping[str, Any]] | None = None,
        real: Bool[Array, "B T"] | None = None,
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """(hidden states, aux of the stack). `inputs` are keyed by the name of the layer; `each` [L ...] has a layer
        axis.

        The mask of the self-attention determines which tokens are not padding, for the step "padding" and for experts.
        `real` replaces it for the experts.
        """
        seen = real_tokens(inputs["self_attention"]["mask"])
        inputs = {**inputs, "padding": seen, "tokens": seen if real is None else {"real": real}}
        keys = (None, None) if key is None else jax.random.split(key)
        entered = self._enter(x, positions, keys[0], inputs["self_attention"]["mask"])
        x, aux = self.stack(entered, inputs, each=each, key=keys[1])
        return (x if self.final_norm is None else self.final_norm(x)), aux

    def _run_step(
        self,
        x: Float[Array, "B 1 D"],
        caches: list[dict[str, Any]],
        index: Int[Array, ""],
        shared: Mapping[str, Any],
        positions: Int[Array, "#B 1"] | None = None,
    ) -> tuple[Float[Array, "B 1 D"], list[dict[str, Any]], dict[str, Any]]:
        """(hidden state, caches, aux) of position `index`. `positions` are given if rows do not begin at position 0."""
        x = self.positions(x, jnp.broadcast_to(index, (1, 1)) if positions is None else positions)
        x, caches, aux = self.stack.step(x, caches, index, shared)
        return (x if self.final_norm is None else self.final_norm(x)), caches, aux
