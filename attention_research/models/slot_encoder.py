"""Slot attention as an encoder, Locatello et al. 2020 (arXiv 2006.15055), algorithm 1: inputs [B S D] -> slots [B M D].

    slots ~ mu + exp(log_sigma) N(0, 1)
    `iterations` times:   updates = SlotAttention(W_q LN(slots), W_k LN(x), W_v LN(x))
                          slots <- GRU(updates, slots),    slots <- slots + FFN(LN(slots))

The slots are exchangeable: only their random start tells them apart. A decoder attends to the slots, and each slot
competes with the others for the inputs. The GRU has the reset gate after the product, as the default of Keras does.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.kernels.sets import slot_attention
from attention_research.layers.feed_forward.nested import nested_output
from attention_research.layers.linear import Linear, glorot_uniform
from attention_research.layers.positions.conditional import placed
from attention_research.layers.recurrent.gru import GRUCell
from attention_research.signatures import Child, Positive, PositiveFloat


class SlotEncoder(nnx.Module):
    """`num_slots` slots over `iterations` rounds. `epsilon` is added to the weights of each slot's mean.

    With a key, every row has its own random slots. Without a key, all rows begin with the same slots, drawn from a
    fixed key. aux["slots"]["attention_weights"] [B 1 M S] is the share of each input that each slot takes in the last
    round.
    """

    def __init__(
        self,
        *,
        width: Positive,
        num_slots: Positive = 7,
        iterations: Positive = 3,
        epsilon: PositiveFloat = 1e-8,
        feed_forward: Child["feed_forward"],
        norm: Child["norm"],
        positions: Child["positions"],
        rngs: nnx.Rngs,
    ):
        self.num_slots, self.iterations, self.epsilon = num_slots, iterations, epsilon
        self.positions = positions(rngs=rngs)
        self.mean = nnx.Param(glorot_uniform(rngs.params(), (1, width), jnp.float32))
        self.log_deviation = nnx.Param(glorot_uniform(rngs.params(), (1, width), jnp.float32))
        self.query, self.key, self.value = (Linear(width, width, use_bias=False, rngs=rngs) for _ in range(3))
        self.input_norm, self.slot_norm, self.norm = (norm(rngs=rngs) for _ in range(3))
        self.cell = GRUCell(width=width, input_width=width, rngs=rngs)
        self.feed_forward = feed_forward(rngs=rngs)

    def __call__(
        self,
        x: Float[Array, "B S D"],
        positions: Int[Array, "#B S"],
        mask: Bool[Array, "B 1 #S S"],
        *,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B M D"], dict[str, Any]]:
        """(slots, aux). Raises ValueError for packed rows, and ConfigError if the feed-forward returns an aux."""
        if mask.shape[2] != 1:
            raise ValueError(f"mask: slots need a mask [B 1 1 S], without packed rows; got shape {mask.shape}")
        inputs = self.input_norm(placed(self.positions, x, positions, mask))
        keys, values, real = self.key(inputs), self.value(inputs), jnp.broadcast_to(mask[:, 0, 0], x.shape[:2])
        slots = self.first(x.shape[0], key).astype(x.dtype)

        def round_(slots: Array, _: None) -> tuple[Array, Array]:
            queries = self.query(self.slot_norm(slots))
            updates, shares = slot_attention(queries, keys, values, real, epsilon=self.epsilon)
            flat = lambda z: z.reshape(-1, z.shape[-1])
            slots = self.cell(flat(updates), {"hidden": flat(slots)})["hidden"].reshape(slots.shape)
            answers = nested_output(self.feed_forward, self.norm(slots), setting="feed_forward", layer="slots")
            return slots + answers, shares

        slots, shares = jax.lax.scan(round_, slots, None, length=self.iterations)
        return slots, {"slots": {"attention_weights": shares[-1][:, None]}}

    def first(self, rows: int, key: Key[Array, ""] | None) -> Float[Array, "B M D"]:
        """The slots before the first round."""
        shape = (self.num_slots, self.mean.shape[-1])
        noise = jax.random.normal(jax.random.key(0), shape) if key is None else jax.random.normal(key, (rows, *shape))
        return jnp.broadcast_to(self.mean[...] + jnp.exp(self.log_deviation[...]) * noise, (rows, *shape))

    def memory_mask(self, mask: Bool[Array, "B 1 #T S"]) -> Bool[Array, "B 1 1 M"]:
        """The mask of the slots that a decoder may attend to: all of them."""
        return jnp.ones((mask.shape[0], 1, 1, self.num_slots), bool)
