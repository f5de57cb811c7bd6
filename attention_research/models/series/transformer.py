"""A causal Transformer over vectors. A matrix maps vectors of another width than the model's to its width."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.layers.linear import Linear
from attention_research.signatures import Child, Given, Positive, Rate


class TransformerNetwork(nnx.Module):
    """[B T I] -> [B T D]. Position t attends to positions 0..t, by default with rotary positions."""

    def __init__(
        self,
        *,
        input_width: Given[int],
        width: Positive,
        num_layers: Positive,
        num_heads: Positive,
        head_width: Positive | None = None,
        dropout_rate: Rate,
        self_attention: Child["causal_attention"] = "rotary",
        feed_forward: Child["feed_forward"] = "dense",
        norm: Child["norm"] = "layer_norm",
        positions: Child["positions"] = "none",
        stack: Child["causal_stack"] = "transformer",
        rngs: nnx.Rngs,
    ):
        del num_layers, num_heads, head_width, dropout_rate  # inherited by the stack
        del self_attention, feed_forward, norm, positions
        self.input = None if input_width == width else Linear(input_width, width, rngs=rngs)
        self.stack = stack(rngs=rngs)

    def __call__(
        self, x: Float[Array, "B T I"], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """(hidden states, aux of the stack)."""
        places = jnp.arange(x.shape[1], dtype=jnp.int32)[None]
        return self.stack(x if self.input is None else self.input(x), places, None, key=key)
