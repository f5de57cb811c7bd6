"""Recurrent layers on each other (Sutskever et al. 2014), dropout between them (Zaremba et al. 2014)."""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from attention_research.layers.dropout import dropout
from attention_research.layers.recurrent.scan import run
from attention_research.signatures import Constructor

#: One cell's state: name -> [B D].
State = dict[str, Any]


class RecurrentLayers(nnx.Module):
    """`num_layers` cells; dropout on the input of each, never on a state; `residual` adds the input from the second on
    (Wu et al. 2016). Layer after layer over a whole sequence, or all layers for one step.

    Raises ValueError where the cell's own width is not `width`, on which what stands around it is built.
    """

    def __init__(
        self,
        *,
        cell: Constructor,
        num_layers: int,
        width: int,
        dropout_rate: float,
        residual: bool = False,
        input_width: int,
        rngs: nnx.Rngs,
    ):
        widths = [input_width, *[width] * (num_layers - 1)]
        self.cells = nnx.List([cell(input_width=one, rngs=rngs) for one in widths])
        if self.cells[0].width != width:
            raise ValueError(f"cell.width: expected {width}, the width around it; got {self.cells[0].width}")
        self.width, self.dropout_rate, self.residual = width, dropout_rate, residual

    def initial(self, batch: int, dtype: Any) -> tuple[State, ...]:
        """Zeros, a state a layer."""
        return tuple(cell.initial(batch, dtype) for cell in self.cells)

    def __call__(
        self,
        x: Float[Array, "B T I"],
        states: tuple[State, ...],
        real: Bool[Array, "B T"] | None = None,
        *,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B T D"], tuple[State, ...]]:
        """(outputs of the last layer, final states)."""
        finals = []
        for number, (cell, state) in enumerate(zip(self.cells, states, strict=True)):
            y, final = run(cell, self._dropped(x, number, key), state, real)
            x = x + y if self.residual and number else y
            finals.append(final)
        return x, tuple(finals)

    def step(
        self, x: Float[Array, "B I"], states: tuple[State, ...], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B D"], tuple[State, ...]]:
        """(output of the last layer, states) of one more position."""
        after = []
        for number, (cell, state) in enumerate(zip(self.cells, states, strict=True)):
            after.append(cell(self._dropped(x, number, key), state))
            y = after[-1]["hidden"]
            x = x + y if self.residual and number else y
        return x, tuple(after)

    def _dropped(self, x: Array, layer: int, key: Key[Array, ""] | None) -> Array:
        return dropout(x, self.dropout_rate, None if key is None else jax.random.fold_in(key, layer))
