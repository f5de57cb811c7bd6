"""A bidirectional recurrent network (Schuster & Paliwal 1997) whose outputs are pooled to one vector.

`summary` "last" takes the final states of the two directions; "mean" takes the mean of the outputs over non-padding
positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.layers.pooling.average import average, normalized
from attention_research.layers.recurrent.scan import run
from attention_research.signatures import Child, Given


class BidirectionalPooling(nnx.Module):
    """Runs one cell in each direction and concatenates their vectors. Padding is skipped.

    The cells have the width of their section. "weights" are the weights of the summary over the outputs; a recurrent
    network has no other weights per position.
    """

    def __init__(
        self,
        *,
        cell: Child["recurrent_cell"] = "gru",
        summary: Literal["mean", "last"] = "mean",
        input_width: Given[int],
        rngs: nnx.Rngs,
    ):
        self.summary = summary
        self.forward_cell = cell(input_width=input_width, rngs=rngs)
        self.backward_cell = cell(input_width=input_width, rngs=rngs)
        self.output_width = self.forward_cell.width + self.backward_cell.width

    def __call__(
        self, x: Float[Array, "B S D"], batch: Mapping[str, Array], real: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B P"], dict[str, Float[Array, "B S"]]]:
        del batch
        start = lambda cell: cell.initial(x.shape[0], x.dtype)
        ahead, last = run(self.forward_cell, x, start(self.forward_cell), real)
        back, first = run(self.backward_cell, x, start(self.backward_cell), real, reverse=True)
        weights = normalized(jnp.ones(real.shape, jnp.float32), real)
        if self.summary == "mean":
            return average(jnp.concatenate([ahead, back], axis=-1), weights), {"weights": weights}
        ends = jnp.concatenate([last["hidden"], first["hidden"]], axis=-1)
        edges = jnp.zeros_like(weights).at[:, 0].add(0.5) + 0.5 * last_real(real)
        return ends, {"weights": jnp.where(real.any(axis=1, keepdims=True), edges, jnp.zeros_like(edges))}


def last_real(real: Bool[Array, "B S"]) -> Float[Array, "B S"]:
    """1 at the last non-padding position of each text, 0 elsewhere. Padding is at the end of texts."""
    after = jnp.concatenate([real[:, 1:], jnp.zeros_like(real[:, :1])], axis=1)
    return (real & ~after).astype(jnp.float32)
