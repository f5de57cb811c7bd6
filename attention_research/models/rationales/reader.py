"""Cells on each other that skip words, Lei et al. 2016, section 4.1: at a word that was left out every state is copied.

Zeroing its embedding would not do: the cell would still update its state, and tell where something was left out.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.layers.recurrent.scan import run
from attention_research.signatures import Constructor


class SkippingReader(nnx.Module):
    """`num_layers` cells; a text without any word left in it has the states of none."""

    def __init__(self, cell: Constructor, num_layers: int, input_width: int, *, rngs: nnx.Rngs):
        cells = []
        for _ in range(num_layers):
            cells.append(cell(input_width=input_width, rngs=rngs))
            input_width = cells[-1].width
        self.cells = nnx.List(cells)

    @property
    def width(self) -> int:
        """Of all last states together."""
        return sum(cell.width for cell in self.cells)

    def __call__(
        self, x: Float[Array, "B S E"], selected: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B S D"], Float[Array, "B F"]]:
        """(outputs of the last layer, 0 at words left out; the last states of all layers next to each other)."""
        last = []
        for cell in self.cells:
            x, state = run(cell, x, cell.initial(x.shape[0], x.dtype), selected)
            last.append(state["hidden"])
        return x, jnp.concatenate(last, axis=-1)
