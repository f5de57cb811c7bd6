"""Bidirectional encoder, Schuster & Paliwal 1997; Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), appendix A.2.1."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from attention_research.layers.dropout import dropout
from attention_research.layers.recurrent.layers import check_width
from attention_research.layers.recurrent.scan import run
from attention_research.signatures import Child, Given, Positive, Rate


class BidirectionalEncoder(nnx.Module):
    """Embeddings [B S I] -> "hidden" [B S 2D], the concatenated forward and backward state of each word.

    The two directions are concatenated in every layer. "summary" [B D] is the backward state at the first word, from
    which the decoder of the paper starts. "last" [B 2D] has the concatenated last states of both directions, and
    "final" those of all layers. `residual` is that of the unidirectional encoder. Raises ConfigError if the width of
    the cell is not `width`.
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
        widths = [input_width, *[2 * width] * (num_layers - 1)]
        self.forward = nnx.List([cell(input_width=one, rngs=rngs) for one in widths])
        self.backward = nnx.List([cell(input_width=one, rngs=rngs) for one in widths])
        check_width(self.forward[0], width)
        self.dropout_rate, self.residual = dropout_rate, residual
        self.output_width, self.summary_width, self.final_width = 2 * width, width, 2 * width

    def __call__(
        self, x: Float[Array, "B S I"], real: Bool[Array, "B S"], *, key: Key[Array, ""] | None = None
    ) -> dict[str, Any]:
        """The memory. Hidden states at padding positions are 0."""
        finals, join = [], lambda one, other: jnp.concatenate([one, other], axis=-1)
        for number, cells in enumerate(zip(self.forward, self.backward, strict=True)):
            given = dropout(x, self.dropout_rate, None if key is None else jax.random.fold_in(key, number))
            start = cells[0].initial(x.shape[0], x.dtype)
            (right, after), (left, before) = (
                run(cell, given, start, real, reverse=reverse)
                for cell, reverse in zip(cells, (False, True), strict=True)
            )
            y = join(right, left)
            x = x + y if self.residual and number else y
            finals.append(jax.tree.map(join, after, before))
        return {"hidden": x, "last": finals[-1]["hidden"], "summary": before["hidden"], "final": tuple(finals)}
