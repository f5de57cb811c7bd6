"""RNNsearch's decoder, Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), appendix A.2.2.

The alignment computes the context c_i from s_{i-1}; s_i = cell([E y_{i-1}; c_i], s_{i-1}). The readout is
t~_i = U_o s_{i-1} + V_o E y_{i-1} + C_o c_i, t_i is the maximum over each pair of neighbours of t~_i (maxout), and
p(y_i) = softmax(W_o t_i). Attention and readout both use s_{i-1}, the state before the step. With the alignment
`last_state`, this decoder is the RNNencdec of the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.kernels.largest import largest
from attention_research.layers.alignment.protocol import Alignment
from attention_research.layers.dropout import dropout
from attention_research.layers.linear import Linear
from attention_research.layers.recurrent.layers import RecurrentLayers
from attention_research.models.recurrent.stepwise import Arrays, StepwiseDecoder
from attention_research.signatures import Child, Given, Positive, Rate


class BahdanauDecoder(StepwiseDecoder):
    """A decoder with one cell. `readout_width` (l, 500 in the paper) is the width after maxout.

    Dropout is applied to the input of the cell and to t_i. The paper does not use dropout.
    """

    def __init__(
        self,
        *,
        width: Positive,
        readout_width: Positive,
        dropout_rate: Rate,
        cell: Child["recurrent_cell"],
        alignment: Child["alignment"],
        start: Child["decoder_start"] = "projected",
        input_width: Given[int],
        key_width: Given[int],
        summary_width: Given[int],
        final_width: Given[int],
        rngs: nnx.Rngs,
    ):
        self.output_width, self.dropout_rate = readout_width, dropout_rate
        self.alignment: Alignment = alignment(query_width=width, key_width=key_width, rngs=rngs)
        context_width = self.alignment.context_width
        self.layers = RecurrentLayers(
            cell=cell, num_layers=1, width=width, dropout_rate=dropout_rate,
            input_width=input_width + context_width, rngs=rngs,
        )  # fmt: skip
        self.start_state = start(layers=self.layers, summary_width=summary_width, final_width=final_width, rngs=rngs)
        self.from_state = Linear(width, 2 * readout_width, rngs=rngs)
        self.from_input = Linear(input_width, 2 * readout_width, use_bias=False, rngs=rngs)
        self.from_context = Linear(context_width, 2 * readout_width, use_bias=False, rngs=rngs)

    def start(self, memory: Mapping[str, Any]) -> dict[str, Arrays]:
        """The source and state of the alignment, and s_0."""
        fixed, looking = self.alignment.start(memory)
        summary = memory["summary"]
        states = self.start_state(memory, self.layers.initial(summary.shape[0], summary.dtype))
        return {"fixed": fixed, "state": {"layers": states, "alignment": looking}}

    def advance(
        self, x: Float[Array, "B I"], fixed: Arrays, state: Arrays, key: Key[Array, ""] | None
    ) -> tuple[Arrays, Arrays]:
        """Computes c_i and s_i. `finish` computes the readout."""
        before = state["layers"][0]["hidden"]
        context, weights, looking = self.alignment(before[:, None], fixed, state["alignment"], key=key)
        _, states = self.layers.step(jnp.concatenate([x, context[:, 0]], axis=-1), state["layers"], key=key)
        given = {"state": before, "context": context[:, 0], "alignment": weights[:, 0]}
        return {"layers": states, "alignment": looking}, given

    def finish(self, x: Float[Array, "B T I"], given: Arrays, key: Key[Array, ""] | None) -> Float[Array, "B T O"]:
        """The readout t_i, by maxout over pairs of neighbours."""
        both = self.from_state(given["state"]) + self.from_input(x) + self.from_context(given["context"])
        pairs = both.reshape(*both.shape[:-1], self.output_width, 2)
        return dropout(largest(pairs, -1), self.dropout_rate, key)
