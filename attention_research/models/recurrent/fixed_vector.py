"""A decoder that reads the source as one fixed vector, Sutskever et al. 2014 (arXiv 1409.3215), Cho et al. 2014.

p(y | x) = prod_t p(y_t | v, y_<t): a language model that starts from the final states of the encoder. Cho et al. also
feed the vector to every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.layers.dropout import dropout
from attention_research.layers.recurrent.layers import RecurrentLayers
from attention_research.models.recurrent.stepwise import Arrays, StepwiseDecoder
from attention_research.signatures import Child, Given, Positive, Rate


class FixedVectorDecoder(StepwiseDecoder):
    """A decoder without attention, which sees only the last states of the encoder.

    With `context_every_step`, the last state of the top layer is also an input of every step.
    """

    def __init__(
        self,
        *,
        num_layers: Positive,
        width: Positive,
        dropout_rate: Rate,
        residual: bool = False,
        context_every_step: bool = False,
        cell: Child["recurrent_cell"],
        start: Child["decoder_start"] = "encoder_state",
        input_width: Given[int],
        key_width: Given[int],
        summary_width: Given[int],
        final_width: Given[int],
        rngs: nnx.Rngs,
    ):
        self.output_width, self.dropout_rate, self.context_every_step = width, dropout_rate, context_every_step
        self.layers = RecurrentLayers(
            cell=cell, num_layers=num_layers, width=width, dropout_rate=dropout_rate, residual=residual,
            input_width=input_width + (key_width if context_every_step else 0), rngs=rngs,
        )  # fmt: skip
        self.start_state = start(layers=self.layers, summary_width=summary_width, final_width=final_width, rngs=rngs)

    def start(self, memory: Mapping[str, Any]) -> dict[str, Arrays]:
        """The last state of the encoder, and the initial states of the decoder."""
        last = memory["last"]
        states = self.start_state(memory, self.layers.initial(last.shape[0], last.dtype))
        return {"fixed": {"last": last, "real": memory["real"]}, "state": {"layers": states}}

    def advance(
        self, x: Float[Array, "B I"], fixed: Arrays, state: Arrays, key: Key[Array, ""] | None
    ) -> tuple[Arrays, Arrays]:
        """Computes one step of all layers. The alignment is 0 everywhere."""
        joined = jnp.concatenate([x, fixed["last"]], axis=-1) if self.context_every_step else x
        hidden, states = self.layers.step(joined, state["layers"], key=key)
        return {"layers": states}, {"hidden": hidden, "alignment": jnp.zeros(fixed["real"].shape, jnp.float32)}

    def finish(self, x: Float[Array, "B T I"], given: Arrays, key: Key[Array, ""] | None) -> Float[Array, "B T O"]:
        """The states of the top layer, after dropout."""
        del x
        return dropout(given["hidden"], self.dropout_rate, key)

    def __call__(
        self, x: Float[Array, "B T I"], memory: Mapping[str, Any], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T O"], dict[str, Any]]:
        """Computes a whole target layer by layer. This is possible because no input of a step depends on the output of
        the top layer."""
        cache, length = self.start(memory), x.shape[1]
        if self.context_every_step:
            last = jnp.broadcast_to(memory["last"][:, None], (*x.shape[:2], memory["last"].shape[-1]))
            x = jnp.concatenate([x, last], axis=-1)
        keys = (None, None) if key is None else jax.random.split(key)
        hidden, _ = self.layers(x, cache["state"]["layers"], key=keys[0])
        batch, source = memory["real"].shape
        return dropout(hidden, self.dropout_rate, keys[1]), {
            "alignment": jnp.zeros((batch, length, source), jnp.float32)
        }
