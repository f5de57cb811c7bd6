"""A recurrent encoder from left to right, Sutskever, Vinyals & Le 2014 (arXiv 1409.3215)."""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from attention_research.layers.recurrent.layers import RecurrentLayers
from attention_research.signatures import Child, Given, Positive, Rate


class UnidirectionalEncoder(nnx.Module):
    """Embeddings [B S I] -> "hidden" [B S D].

    "last" and "summary" [B D] are the state of the top layer after the last word (without padding). "final" has these
    states of all layers. `residual` adds the input of a layer to its output, from the second layer on.
    """

    def __init__(
        self,
        *,
        num_layers: Positive,
        width: Positive,
        dropout_rate: Rate,
        residual: bool = False,
        cell: Child["recurrent_cell"],
        input_width: Given[int],
        rngs: nnx.Rngs,
    ):
        self.layers = RecurrentLayers(
            cell=cell, num_layers=num_layers, width=width, dropout_rate=dropout_rate,
            residual=residual, input_width=input_width, rngs=rngs,
        )  # fmt: skip
        self.output_width = self.summary_width = self.final_width = width

    def __call__(
        self, x: Float[Array, "B S I"], real: Bool[Array, "B S"], *, key: Key[Array, ""] | None = None
    ) -> dict[str, Any]:
        """The memory. Hidden states at padding positions are 0."""
        hidden, final = self.layers(x, self.layers.initial(x.shape[0], x.dtype), real, key=key)
        last = final[-1]["hidden"]
        return {"hidden": hidden, "last": last, "summary": last, "final": final}
