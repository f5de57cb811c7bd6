"""Stacked recurrent layers (Sutskever et al. 2014) with dropout between them (Zaremba et al. 2014)."""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from attention_research.errors import ConfigError
from attention_research.layers.dropout import dropout
from attention_research.layers.recurrent.scan import run
from attention_research.signatures import Constructor

#: The state of one cell: name -> [B D].
State = dict[str, Any]


def check_width(cell: Any, width: int) -> None:
    """Raises ConfigError if a cell does not have the width of its model."""
    if cell.width != width:
        raise ConfigError(f"cell.width: expected {width}, the model's width, got {cell.width}")


class RecurrentLayers(nnx.Module):
    """A stack of `num_layers` cells, applied to a whole sequence or, with `step`, to one position.

    Dropout is applied to the input of each cell, but not to its state. `residual` adds the input of a layer to its
    output from the second layer on (Wu et al. 2016). Raises ConfigError if the width of the cell is not `width`.
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
        check_width(self.cells[0], width)
        self.width, self.dropout_rate, self.residual = width, dropout_rate, residual

    def initial(self, batch: int, dtype: Any) -> tuple[State, ...]:
        """The initial state of each layer: zeros."""
        return tuple(cell.initial(batch, dtype) for cell in self.cells)

    def __call__(
        self,
        x: Float[Array, "B T I"],
        states: tuple[State, ...],
        real: Bool[Array, "B T"] | None = None,
        *,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B T D"], tuple[State, ...]]:
        """Returns (the outputs of the last layer, the final states)."""
        finals = []
        for number, (cell, state) in enumerate(zip(self.cells, states, strict=True)):
            y, final = run(cell, self._dropped(x, number, key), state, real)
            x = x + y if self.residual and number else y
            finals.append(final)
        return x, tuple(finals)

    def step(
        self, x: Float[Array, "B I"], states: tuple[State, ...], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B D"], tuple[State, ...]]:
        """Processes one more position. Returns (the output of the last layer, the states)."""
        after = []
        for number, (cell, state) in enumerate(zip(self.cells, states, strict=True)):
            after.append(cell(self._dropped(x, number, key), state))
            y = after[-1]["hidden"]
            x = x + y if self.residual and number else y
        return x, tuple(after)

    def _dropped(self, x: Array, layer: int, key: Key[Array, ""] | None) -> Array:
        return dropout(x, self.dropout_rate, None if key is None else jax.random.fold_in(key, layer))
