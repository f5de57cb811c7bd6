"""The decoder of Show, Attend and Tell, Xu et al. 2015 (arXiv 1502.03044), section 3.1.2.

The alignment computes alpha_t from h_{t-1}. The context is z_t = beta_t phi(a, alpha_t) with a scalar gate
beta_t = sigmoid(f_beta(h_{t-1})). Then h_t = LSTM([E y_{t-1}; z_t], h_{t-1}), and the deep output (equation 7) is
p(y_t) = softmax(L_o(E y_{t-1} + L_h h_t + L_z z_t)). h_0 and c_0 are computed from the mean of the feature map, each by
its own layer. The released code applies tanh to the sum in the deep output; the paper and this module do not. Like the
released code, this module applies dropout to the deep output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.layers.alignment.protocol import Alignment
from attention_research.layers.dropout import dropout
from attention_research.layers.linear import Linear
from attention_research.layers.recurrent.layers import RecurrentLayers
from attention_research.models.recurrent.stepwise import Arrays, StepwiseDecoder
from attention_research.signatures import Child, Given, Positive, Rate


class ShowAttendTell(StepwiseDecoder):
    """A decoder with one cell. Its output has the width of the embeddings."""

    def __init__(
        self,
        *,
        width: Positive,
        dropout_rate: Rate,
        cell: Child["recurrent_cell"],
        alignment: Child["image_alignment", "alignment"],
        start: Child["decoder_start"] = "projected",
        input_width: Given[int],
        key_width: Given[int],
        summary_width: Given[int],
        final_width: Given[int],
        rngs: nnx.Rngs,
    ):
        self.output_width, self.dropout_rate = input_width, dropout_rate
        self.alignment: Alignment = alignment(query_width=width, key_width=key_width, rngs=rngs)
        self.reported = self.alignment.reported
        context_width = self.alignment.context_width
        self.layers = RecurrentLayers(
            cell=cell, num_layers=1, width=width, dropout_rate=dropout_rate,
            input_width=input_width + context_width, rngs=rngs,
        )  # fmt: skip
        self.start_state = start(layers=self.layers, summary_width=summary_width, final_width=final_width, rngs=rngs)
        self.gate = Linear(width, 1, rngs=rngs)
        self.from_state = Linear(width, input_width, rngs=rngs)
        self.from_context = Linear(context_width, input_width, use_bias=False, rngs=rngs)

    def start(self, memory: Mapping[str, Any]) -> dict[str, Arrays]:
        """The source and state of the alignment, and h_0 and c_0."""
        fixed, looking = self.alignment.start(memory)
        summary = memory["summary"]
        states = self.start_state(memory, self.layers.initial(summary.shape[0], summary.dtype))
        return {"fixed": fixed, "state": {"layers": states, "alignment": looking}}

    def advance(
        self, x: Float[Array, "B I"], fixed: Arrays, state: Arrays, key: Key[Array, ""] | None
    ) -> tuple[Arrays, Arrays]:
        """Computes z_t and h_t. `finish` computes the deep output."""
        before = state["layers"][0]["hidden"]
        context, weights, looking = self.alignment(before[:, None], fixed, state["alignment"], key=key)
        context = jax.nn.sigmoid(self.gate(before)) * context[:, 0]
        hidden, states = self.layers.step(jnp.concatenate([x, context], axis=-1), state["layers"], key=key)
        reported = {name: looking["reported"][name] for name in self.reported}
        given = {"hidden": hidden, "context": context, "alignment": weights[:, 0], **reported}
        return {"layers": states, "alignment": looking}, given

    def finish(self, x: Float[Array, "B T I"], given: Arrays, key: Key[Array, ""] | None) -> Float[Array, "B T O"]:
        """The deep output E y_{t-1} + L_h h_t + L_z z_t, after dropout."""
        deep = x + self.from_state(given["hidden"]) + self.from_context(given["context"])
        return dropout(deep, self.dropout_rate, key)
