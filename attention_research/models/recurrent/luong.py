"""Luong's decoder, Luong, Pham & Manning 2015 (arXiv 1508.04025), equation 5: h~_t = tanh(W_c [c_t; h_t]).

The alignment reads h_t, the state of the top layer at the current step. The decoder of Bahdanau et al. uses the state
of the previous step.
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


class LuongDecoder(StepwiseDecoder):
    """A decoder with attention after the recurrent layers.

    `input_feeding` concatenates h~_{t-1} (zeros at first) to the next input (section 3.3). Without it, a whole target
    is computed layer by layer, and the attention of all steps is computed at once.
    """

    def __init__(
        self,
        *,
        num_layers: Positive,
        width: Positive,
        dropout_rate: Rate,
        residual: bool = False,
        input_feeding: bool = True,
        cell: Child["recurrent_cell"],
        alignment: Child["alignment"],
        start: Child["decoder_start"] = "encoder_state",
        input_width: Given[int],
        key_width: Given[int],
        summary_width: Given[int],
        final_width: Given[int],
        rngs: nnx.Rngs,
    ):
        self.output_width, self.dropout_rate, self.input_feeding = width, dropout_rate, input_feeding
        self.layers = RecurrentLayers(
            cell=cell, num_layers=num_layers, width=width, dropout_rate=dropout_rate, residual=residual,
            input_width=input_width + (width if input_feeding else 0), rngs=rngs,
        )  # fmt: skip
        self.start_state = start(layers=self.layers, summary_width=summary_width, final_width=final_width, rngs=rngs)
        self.alignment: Alignment = alignment(query_width=width, key_width=key_width, rngs=rngs)
        self.attentional = Linear(self.alignment.context_width + width, width, use_bias=False, rngs=rngs)

    def start(self, memory: Mapping[str, Any]) -> dict[str, Arrays]:
        """The source and state of the alignment, the states of the layers, and h~_0 = 0 with input feeding."""
        fixed, looking = self.alignment.start(memory)
        hidden = memory["hidden"]
        states = self.start_state(memory, self.layers.initial(hidden.shape[0], hidden.dtype))
        state = {"layers": states, "alignment": looking}
        if self.input_feeding:
            state["fed"] = jnp.zeros((hidden.shape[0], self.output_width), hidden.dtype)
        return {"fixed": fixed, "state": state}

    def advance(
        self, x: Float[Array, "B I"], fixed: Arrays, state: Arrays, key: Key[Array, ""] | None
    ) -> tuple[Arrays, Arrays]:
        """Computes h_t, the alignment, and h~_t."""
        joined = jnp.concatenate([x, state["fed"]], axis=-1) if self.input_feeding else x
        hidden, states = self.layers.step(joined, state["layers"], key=key)
        vector, weights, looking = self._attended(hidden[:, None], fixed, state["alignment"], key)
        after: Arrays = {"layers": states, "alignment": looking}
        if self.input_feeding:
            after["fed"] = vector[:, 0]
        return after, {"hidden": vector[:, 0], "alignment": weights[:, 0]}

    def finish(self, x: Float[Array, "B T I"], given: Arrays, key: Key[Array, ""] | None) -> Float[Array, "B T O"]:
        """The attentional states h~_t, after dropout."""
        del x
        return dropout(given["hidden"], self.dropout_rate, key)

    def __call__(
        self, x: Float[Array, "B T I"], memory: Mapping[str, Any], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T O"], dict[str, Any]]:
        """Computes a whole target: step by step with input feeding, layer by layer without it."""
        if self.input_feeding:
            return super().__call__(x, memory, key=key)
        cache = self.start(memory)
        keys = (None, None, None) if key is None else jax.random.split(key, 3)
        hidden, _ = self.layers(x, cache["state"]["layers"], key=keys[0])
        vector, weights, _ = self._attended(hidden, cache["fixed"], cache["state"]["alignment"], keys[1])
        return dropout(vector, self.dropout_rate, keys[2]), {"alignment": weights}

    def _attended(self, hidden: Array, fixed: Arrays, looking: Arrays, key: Any) -> tuple[Array, Array, Arrays]:
        context, weights, looking = self.alignment(hidden, fixed, looking, key=key)
        return jnp.tanh(self.attentional(jnp.concatenate([context, hidden], axis=-1))), weights, looking
