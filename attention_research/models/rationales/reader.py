"""Stacked cells that skip words, Lei et al. 2016, section 4.1: at a word that is not selected, every state is copied.

Zeroing the embedding of the word would not be equivalent: the cell would still update its state, which would reveal the
positions of skipped words.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.layers.recurrent.scan import run
from attention_research.signatures import Constructor


class SkippingReader(nnx.Module):
    """A stack of `num_layers` cells. Without any selected word, the result is the initial state."""

    def __init__(self, cell: Constructor, num_layers: int, input_width: int, *, rngs: nnx.Rngs):
        cells = []
        for _ in range(num_layers):
            cells.append(cell(input_width=input_width, rngs=rngs))
            input_width = cells[-1].width
        self.cells = nnx.List(cells)

    @property
    def width(self) -> int:
        """The total width of the last states of all layers."""
        return sum(cell.width for cell in self.cells)

    def __call__(
        self, x: Float[Array, "B S E"], selected: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B S D"], Float[Array, "B F"]]:
        """(outputs of the last layer, which are 0 at skipped words; concatenated last states of all layers)."""
        last = []
        for cell in self.cells:
            x, state = run(cell, x, cell.initial(x.shape[0], x.dtype), selected)
            last.append(state["hidden"])
        return x, jnp.concatenate(last, axis=-1)
