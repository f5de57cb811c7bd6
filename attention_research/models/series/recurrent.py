"""A recurrent network over a series: stacked cells with dropout between them (`layers.recurrent`)."""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.layers.recurrent.layers import RecurrentLayers
from attention_research.signatures import Child, Given, Positive, Rate


class RecurrentNetwork(nnx.Module):
    """[B T I] -> [B T D]: the states of the last of `num_layers` layers. They begin at 0."""

    def __init__(
        self,
        *,
        input_width: Given[int],
        width: Positive,
        num_layers: Positive = 1,
        dropout_rate: Rate,
        cell: Child["recurrent_cell"] = "lstm",
        rngs: nnx.Rngs,
    ):
        self.layers = RecurrentLayers(
            cell=cell, num_layers=num_layers, width=width, dropout_rate=dropout_rate, input_width=input_width, rngs=rngs
        )

    def __call__(
        self, x: Float[Array, "B T I"], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """(states, {})."""
        return self.layers(x, self.layers.initial(len(x), x.dtype), key=key)[0], {}
